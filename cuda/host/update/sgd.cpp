#include "cuda/host/base/check.hpp"
#include "cuda/host/update/run_update.hpp"
#include "cuda/host/update_operations.hpp"

namespace zeroproof::cuda::host {

void sgd_update(const Exec& exec, const SgdOptions& options, const StepScalars& scalars,
                Span<const float> grad, Span<float> master, Span<float> momentum_buffer) {
  ZP_CHECK(options.momentum || !options.nesterov, ErrorCode::invalid_argument,
           "sgd_update: nesterov is on without momentum", "it uses the momentum buffer",
           "turn momentum on or nesterov off");
  require_same_numel("sgd_update", "grad", grad.size(), "master", master.size());
  require_optional_numel("sgd_update", grad.size(), "momentum_buffer", momentum_buffer.size(),
                         options.momentum, "momentum");
  run_update(exec, {UpdateRule::sgd, false, options.momentum, options.nesterov}, options.maximize,
             scalars,
             {grad.data(), master.data(), {nullptr, nullptr, nullptr, momentum_buffer.data()}},
             numel(grad));
}

void sgd_ema_update(const Exec& exec, const SgdEmaOptions& options, const StepScalars& scalars,
                    Span<const float> grad, Span<float> master, Span<float> exp_avg) {
  require_same_numel("sgd_ema_update", "grad", grad.size(), "master", master.size());
  require_same_numel("sgd_ema_update", "grad", grad.size(), "exp_avg", exp_avg.size());
  run_update(exec, {UpdateRule::sgd_ema, false, false, false}, options.maximize, scalars,
             {grad.data(), master.data(), {exp_avg.data()}}, numel(grad));
}

}  // namespace zeroproof::cuda::host
