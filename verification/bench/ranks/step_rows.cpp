#include <utility>

#include "cuda/host/step_scalars.hpp"
#include "verification/bench/measure/values.hpp"
#include "verification/bench/ranks/suite.hpp"

namespace zeroproof::verification::bench {
namespace {

namespace host = cuda::host;

StepScalars next_scalars(RankState& state, bool clips, std::int64_t micro_batches) {
  return host::step_scalars(step_hyper(clips), steps_before + ++state.steps, log2_loss_scale, micro_batches);
}

TensorView bf16_view(Span<std::uint16_t> params) { return {params.data(), DType::bf16, numel(params)}; }

Span<std::uint16_t> own_part(const RankData& data, Span<std::uint16_t> params) {
  return params.subspan(static_cast<std::size_t>(data.shard.begin),
                        static_cast<std::size_t>(data.shard.numel()));
}

void library_step(RankData& data) {
  data.library.reduce_scatter(data.leaf.span(), data.scattered.span());
  const StepScalars scalars = next_scalars(data.scattered_state, false, data.comm.world_size());
  host::fused_update({}, host::fused_options(step_hyper(false)), scalars, 1, data.scattered.span(),
                     data.scattered_state.views(), bf16_view(own_part(data, data.scattered_params.span())));
  data.library.all_gather(data.scattered_params.span());
}

void replicated_step(RankData& data) {
  data.library.all_reduce(data.leaf.span(), data.reduced.span());
  const StepScalars scalars = next_scalars(data.reduced_state, false, data.comm.world_size());
  host::fused_update({}, host::fused_options(step_hyper(false)), scalars, 1, data.reduced.span(),
                     data.reduced_state.views(), bf16_view(data.reduced_params.span()));
}

}  // namespace

void add_library_rows(std::vector<Row>& rows, RankData& data) {
  rows.push_back({"library scatter + gather", 0, data.numel, [&data] { library_step(data); }});
  rows.push_back({"library all-reduce", 0, data.numel, [&data] { replicated_step(data); }});
}

void add_product_rows(std::vector<Row>& rows, RankData& data, const ProductSteps& products) {
  for (const auto& product : products) {
    const ProductVariant& variant = product->variant();
    Row row{row_name(variant), 0, data.numel, [step = product.get()] { step->step(); }};
    if (variant.one_pass_bytes()) {  // G is stored once and read once more
      row.num_bytes = window_bytes(data.comm.world_size()) + 8;
      row.limits = {"window pass"};
    }
    rows.push_back(std::move(row));
  }
}

std::vector<Comparison> rank_comparisons(bool warm) {
  constexpr const char* library = "library scatter + gather";
  const std::string messages = row_name(product_variants().front());
  std::vector<Comparison> all;
  for (const ProductVariant& variant : product_variants()) {
    if (variant.more) continue;  // the library's rows add up one leaf of every rank
    const std::string product = row_name(variant);
    all.push_back({product + ", against library", product, library,
                   warm ? variant.goal_warm : variant.goal_cold, true});
    all.push_back({product + ", against all-reduce", product, "library all-reduce", 0, true});
    if (product != messages) all.push_back({product + ", against messages", product, messages, 0, true});
  }
  return all;
}

}  // namespace zeroproof::verification::bench
