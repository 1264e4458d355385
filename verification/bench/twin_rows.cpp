#include "cuda/host/cast.hpp"
#include "cuda/host/clip.hpp"
#include "cuda/host/fused_step.hpp"
#include "cuda/host/grad_norm.hpp"
#include "cuda/host/grad_scale.hpp"
#include "cuda/host/grad_stats.hpp"
#include "cuda/host/grad_sum.hpp"
#include "cuda/host/update_twins.hpp"
#include "verification/bench/measure/format_span.hpp"
#include "verification/bench/suite.hpp"

namespace zeroproof::verification::bench {

void add_twin_rows(std::vector<Row>& rows, Data& data, int num_threads) {
  namespace host = cuda::host;
  Exec exec;
  exec.num_threads = num_threads;
  const Span<const float> grad = data.grad_sum.span();
  const Span<float> work = data.work_grad.span();
  const auto add = [&](const char* name, double num_bytes, const char* limit, auto body, double goal = 0) {
    rows.push_back({name, num_bytes, data.numel, body, {}, {}, {limit}, goal});
  };
  add(
      "adamw", 28, "4R3W",
      [=, &data] {
        host::adamw_update(exec, {}, data.scalars, grad, data.threads.master.span(),
                           data.threads.exp_avg.span(), data.threads.exp_avg_sq.span(), {});
      },
      0.90);
  // A factor of 1 is multiplied like any other; it keeps the values where they are over many rounds.
  add("unscale", 8, "RW", [=] { host::unscale(exec, 1.0F, work, work); });
  add("add_nodes", 12, "2R1W", [=] { host::add_nodes(exec, work, grad, work); });
  add("norm", 4, "R", [=] {
    NormLimbs limbs;
    host::grad_norm_accumulate(exec, grad, limbs);
  });
  add("norm exact", 4, "R", [=] {
    NormLimbs limbs;
    host::grad_norm_exact_accumulate(exec, grad, limbs);
  });
  add("norm one", 4, "R", [=] {
    NormLimbs limbs;
    host::grad_abs_accumulate(exec, grad, limbs);
  });
  add("norm inf", 4, "R", [=] {
    std::uint32_t amax = 0;
    host::grad_max_accumulate(exec, grad, amax);
  });
  add("grad stats", 4, "R", [=] {
    const GradSegment all{0, numel(grad), 0};
    GradStats stats;
    host::grad_stats(exec, grad, {&all, 1}, {&stats, 1});
  });
  // Two passes: every magnitude is divided by the largest.
  rows.push_back(
      {"norm p = 3", 8, data.numel, [=] { host::grad_norm_p(exec, grad, 3.0); }, {}, {}, {"R", "R"}});
  add("fused finite", 4, "R", [=, &data] { host::fused_finite(exec, data.scalars.inv_scale, grad); });
  add("clip", 8, "RW", [=] { host::clip(exec, 1.0F, work, work); });
  add("clip value", 8, "RW", [=] { host::clip_value(exec, 100.0F, work); });
  add("cast to bf16", 6, "R4W2", [=, &data] { host::cast_to_bf16(exec, grad, as_format<bf16>(data.half)); });
  add("cast to fp16", 6, "R4W2", [=, &data] { host::cast_to_fp16(exec, grad, as_format<fp16>(data.half)); });
  add("cast to bf16, drawn", 6, "R4W2", [=, &data] {
    host::stochastic_cast_to_bf16(exec, {1, 1, 0}, grad, as_format<bf16>(data.half));
  });
  add("cast to e4m3", 5, "R4W1", [=, &data] { host::cast_to_e4m3(exec, grad, as_format<e4m3>(data.bytes)); });
  add("cast to e5m2", 5, "R4W1", [=, &data] { host::cast_to_e5m2(exec, grad, as_format<e5m2>(data.bytes)); });
  add("widen bf16", 6, "R2W4",
      [=, &data] { host::widen_bf16(exec, as_format<const bf16>(data.half), work); });
  add("widen fp16", 6, "R2W4",
      [=, &data] { host::widen_fp16(exec, as_format<const fp16>(data.half), work); });
  add("widen e4m3", 5, "R1W4",
      [=, &data] { host::widen_e4m3(exec, as_format<const e4m3>(data.bytes), work); });
  add("widen e5m2", 5, "R1W4",
      [=, &data] { host::widen_e5m2(exec, as_format<const e5m2>(data.bytes), work); });
}

}  // namespace zeroproof::verification::bench
