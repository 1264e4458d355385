#include <atomic>
#include <chrono>
#include <cstring>

#include "cuda/host/base/isa.hpp"
#include "cuda/host/cast.hpp"
#include "cuda/host/clip.hpp"
#include "cuda/host/fused_step.hpp"
#include "cuda/host/grad_norm.hpp"
#include "cuda/host/grad_scale.hpp"
#include "cuda/host/update_twins.hpp"
#include "verification/bench/measure/format_span.hpp"
#include "verification/bench/measure/limit_loops.hpp"
#include "verification/bench/suite.hpp"

namespace zeroproof::verification::bench {
namespace {

namespace host = cuda::host;

void note_norm(double norm, double& kept, StepResults& results) {
  results.norm_changed = results.norm_changed || (kept != 0 && norm != kept);
  kept = norm;
}

void fused_step(const Exec& exec, const Data& data, StepResults& results) {
  const Span<const float> grad_sum = data.grad_sum.span();
  NormLimbs limbs;
  if (host::fused_finite_and_norm(exec, data.scalars.inv_scale, grad_sum, limbs)) results.found_inf = true;
  const double norm = host::grad_norm_finish(limbs);
  note_norm(norm, results.fused_norm, results);
  const TensorView param{data.fused_param.data(), DType::bf16, data.numel};
  const host::FusedState state{data.fused.master.span(), data.fused.exp_avg.span(),
                               data.fused.exp_avg_sq.span()};
  host::fused_update(exec, host::fused_options(data.hyper), data.scalars,
                     host::clip_coef(norm, data.hyper.max_norm), grad_sum, state, param);
}

/// The finite check as a pass of its own, which is how many training loops do it.
bool any_not_finite(WorkerTeam& team, Span<const float> grad) {
  const LimitLoops& loops = limit_loops(host::best_isa());
  std::atomic<std::uint32_t> found{0};
  team.run(numel(grad), [&](std::int64_t begin, std::int64_t end) {
    found |= loops.not_finite(grad.data() + begin, end - begin);
  });
  return found != 0;
}

void zero(WorkerTeam& team, Span<float> grad) {
  team.run(numel(grad), [&](std::int64_t begin, std::int64_t end) {
    std::memset(grad.data() + begin, 0, static_cast<std::size_t>(end - begin) * sizeof(float));
  });
}

void seven_passes(const Exec& exec, const Data& data, WorkerTeam& team, StepResults& results) {
  const Span<float> grad = data.work_grad.span();
  if (host::unscale(exec, data.scalars.inv_scale, grad, grad)) results.found_inf = true;
  if (any_not_finite(team, grad)) results.found_inf = true;
  NormLimbs limbs;
  host::grad_norm_accumulate(exec, grad, limbs);
  const double norm = host::grad_norm_finish(limbs);
  note_norm(norm, results.seven_norm, results);
  host::clip(exec, host::clip_coef(norm, data.hyper.max_norm), grad, grad);
  host::adamw_update(exec, {}, data.scalars, grad, data.seven.master.span(), data.seven.exp_avg.span(),
                     data.seven.exp_avg_sq.span(), {});
  host::cast_to_bf16(exec, data.seven.master.span(), as_format<bf16>(data.seven_param));
  const auto start = std::chrono::steady_clock::now();
  zero(team, grad);
  results.zero_seconds.push_back(
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}

}  // namespace

void add_step_rows(std::vector<Row>& rows, Data& data, WorkerTeam& team, int num_threads,
                   StepResults& results) {
  Exec exec;
  exec.num_threads = num_threads;
  const auto restore_gradient = [&] {
    team.run(data.numel, [&](std::int64_t begin, std::int64_t end) {
      std::memcpy(data.work_grad.data() + begin, data.grad_sum.data() + begin,
                  static_cast<std::size_t>(end - begin) * sizeof(float));
    });
  };
  rows.push_back({"fused step",
                  34,
                  data.numel,
                  [exec, &data, &results] { fused_step(exec, data, results); },
                  {},
                  {},
                  {"R", "4R3W+W2"}});
  rows.push_back({"seven passes",
                  62,
                  data.numel,
                  [exec, &data, &team, &results] { seven_passes(exec, data, team, results); },
                  restore_gradient,
                  {},
                  {"RW", "R", "R", "RW", "4R3W", "R4W2", "W"}});
}

}  // namespace zeroproof::verification::bench
