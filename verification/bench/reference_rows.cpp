#include "cuda/host/update_twins.hpp"
#include "reference/update_twins.hpp"
#include "verification/bench/suite.hpp"

namespace zeroproof::verification::bench {

void add_reference_rows(std::vector<Row>& rows, Data& data) {
  const auto add = [&](const char* name, AdamwUpdateFn* update, const State& state) {
    const auto body = [update, &data, &state] {
      const Span<const float> grad = data.grad_sum.span().first(static_cast<std::size_t>(data.slice_numel));
      update(Exec{}, {}, data.scalars, grad, state.master.span(), state.exp_avg.span(),
             state.exp_avg_sq.span(), {});
    };
    rows.push_back({name, 28, data.slice_numel, body});
  };
  add("adamw, 1 thread", cuda::host::adamw_update, data.serial);
  add("reference adamw, 1 thread", reference::adamw_update, data.reference);
}

std::vector<Comparison> comparisons() {
  return {
      {"fused step against seven passes", "fused step", "seven passes", 1.8, true},
      {"reference against host adamw, 1 thread", "adamw, 1 thread", "reference adamw, 1 thread", 10, false}};
}

}  // namespace zeroproof::verification::bench
