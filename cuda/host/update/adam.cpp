#include "cuda/host/base/check.hpp"
#include "cuda/host/update/run_update.hpp"
#include "cuda/host/update_operations.hpp"

namespace zeroproof::cuda::host {
namespace {

void check(const char* op, const AdamOptions& options, std::size_t grad, std::size_t master,
           std::size_t exp_avg, std::size_t exp_avg_sq, std::size_t max_exp_avg_sq) {
  require_same_numel(op, "grad", grad, "master", master);
  require_same_numel(op, "grad", grad, "exp_avg", exp_avg);
  require_same_numel(op, "grad", grad, "exp_avg_sq", exp_avg_sq);
  require_optional_numel(op, grad, "max_exp_avg_sq", max_exp_avg_sq, options.amsgrad, "amsgrad");
}

}  // namespace

void adamw_update(const Exec& exec, const AdamOptions& options, const StepScalars& scalars,
                  Span<const float> grad, Span<float> master, Span<float> exp_avg,
                  Span<float> exp_avg_sq, Span<float> max_exp_avg_sq) {
  check("adamw_update", options, grad.size(), master.size(), exp_avg.size(), exp_avg_sq.size(),
        max_exp_avg_sq.size());
  run_update(
      exec, {UpdateRule::adamw, options.amsgrad, false, false}, options.maximize, scalars,
      {grad.data(), master.data(), {exp_avg.data(), exp_avg_sq.data(), max_exp_avg_sq.data()}},
      numel(grad));
}

void adam_update(const Exec& exec, const AdamOptions& options, const StepScalars& scalars,
                 Span<const float> grad, Span<float> master, Span<float> exp_avg,
                 Span<float> exp_avg_sq, Span<float> max_exp_avg_sq) {
  check("adam_update", options, grad.size(), master.size(), exp_avg.size(), exp_avg_sq.size(),
        max_exp_avg_sq.size());
  run_update(
      exec, {UpdateRule::adam, options.amsgrad, false, false}, options.maximize, scalars,
      {grad.data(), master.data(), {exp_avg.data(), exp_avg_sq.data(), max_exp_avg_sq.data()}},
      numel(grad));
}

void adamw_update_bf16(const Exec& exec, const AdamOptions& options, const StepScalars& scalars,
                       Span<const bf16> grad, Span<bf16> master, Span<float> exp_avg,
                       Span<float> exp_avg_sq, Span<float> max_exp_avg_sq) {
  check("adamw_update_bf16", options, grad.size(), master.size(), exp_avg.size(), exp_avg_sq.size(),
        max_exp_avg_sq.size());
  run_bf16_update(exec, {UpdateRule::adamw, options.amsgrad, false, false}, options.maximize,
                  scalars, grad, master,
                  {exp_avg.data(), exp_avg_sq.data(), max_exp_avg_sq.data()});
}

void adam_update_bf16(const Exec& exec, const AdamOptions& options, const StepScalars& scalars,
                      Span<const bf16> grad, Span<bf16> master, Span<float> exp_avg,
                      Span<float> exp_avg_sq, Span<float> max_exp_avg_sq) {
  check("adam_update_bf16", options, grad.size(), master.size(), exp_avg.size(), exp_avg_sq.size(),
        max_exp_avg_sq.size());
  run_bf16_update(exec, {UpdateRule::adam, options.amsgrad, false, false}, options.maximize,
                  scalars, grad, master,
                  {exp_avg.data(), exp_avg_sq.data(), max_exp_avg_sq.data()});
}

}  // namespace zeroproof::cuda::host
