#include <string>

#include "cuda/host/base/check.hpp"
#include "cuda/host/update/run_update.hpp"
#include "cuda/host/update_operations.hpp"

namespace zeroproof::cuda::host {
namespace {

void check_sgd(const char* op, const SgdOptions& options, std::size_t grad, std::size_t master,
               std::size_t momentum_buffer) {
  ZP_CHECK(options.momentum || !options.nesterov, ErrorCode::invalid_argument,
           std::string(op) + ": nesterov is on without momentum", "it uses the momentum buffer",
           "turn momentum on or nesterov off");
  require_same_numel(op, "grad", grad, "master", master);
  require_optional_numel(op, grad, "momentum_buffer", momentum_buffer, options.momentum,
                         "momentum");
}

UpdateForm sgd_form(const SgdOptions& options) {
  return {UpdateRule::sgd, false, options.momentum, options.nesterov};
}

}  // namespace

void sgd_update(const Exec& exec, const SgdOptions& options, const StepScalars& scalars,
                Span<const float> grad, Span<float> master, Span<float> momentum_buffer) {
  check_sgd("sgd_update", options, grad.size(), master.size(), momentum_buffer.size());
  run_update(exec, sgd_form(options), options.maximize, scalars,
             {grad.data(), master.data(), {nullptr, nullptr, nullptr, momentum_buffer.data()}},
             numel(grad));
}

void sgd_update_bf16(const Exec& exec, const SgdOptions& options, const StepScalars& scalars,
                     Span<const bf16> grad, Span<bf16> master, Span<float> momentum_buffer) {
  check_sgd("sgd_update_bf16", options, grad.size(), master.size(), momentum_buffer.size());
  run_bf16_update(exec, sgd_form(options), options.maximize, scalars, grad, master,
                  {nullptr, nullptr, nullptr, momentum_buffer.data()});
}

void sgd_ema_update(const Exec& exec, const SgdEmaOptions& options, const StepScalars& scalars,
                    Span<const float> grad, Span<float> master, Span<float> exp_avg) {
  require_same_numel("sgd_ema_update", "grad", grad.size(), "master", master.size());
  require_same_numel("sgd_ema_update", "grad", grad.size(), "exp_avg", exp_avg.size());
  run_update(exec, {UpdateRule::sgd_ema, false, false, false}, options.maximize, scalars,
             {grad.data(), master.data(), {exp_avg.data()}}, numel(grad));
}

}  // namespace zeroproof::cuda::host
