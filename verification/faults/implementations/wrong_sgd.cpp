// Wrong updates of SGD from public bugs.

#include <cmath>

#include "verification/faults/planted/fault_context.hpp"

namespace zeroproof::verification {
namespace {

float gradient(const SgdOptions& options, const StepScalars& c, float grad, float x) {
  const float g = options.maximize ? -grad : grad;
  return c.has_decay != 0 ? g + c.weight_decay * x : g;
}

float direction(const SgdOptions& options, const StepScalars& c, float g, float buf) {
  return options.nesterov ? g + c.momentum * buf : buf;
}

/// The first momentum buffer is dampened like the others.
void dampened_first(const Exec&, const SgdOptions& options, const StepScalars& c,
                    Span<const float> grad, Span<float> master, Span<float> momentum_buffer) {
  for (std::size_t i = 0; i < grad.size(); ++i) {
    const float g = gradient(options, c, grad[i], master[i]);
    float none = 0;
    float& buf = options.momentum ? momentum_buffer[i] : none;
    buf = options.momentum ? c.momentum * buf + c.one_minus_dampening * g : g;
    master[i] = master[i] - c.lr * direction(options, c, g, buf);
  }
}

/// The compiler contracts the last line to one fused multiply-add.
void contracted(const Exec&, const SgdOptions& options, const StepScalars& c,
                Span<const float> grad, Span<float> master, Span<float> momentum_buffer) {
  for (std::size_t i = 0; i < grad.size(); ++i) {
    const float g = gradient(options, c, grad[i], master[i]);
    float none = 0;
    float& buf = options.momentum ? momentum_buffer[i] : none;
    buf = c.is_first != 0 || !options.momentum ? g : c.momentum * buf + c.one_minus_dampening * g;
    master[i] = std::fma(-c.lr, direction(options, c, g, buf), master[i]);
  }
}

}  // namespace

bool put_wrong_sgd(std::string_view fault, cuda::KernelTable& ops) {
  if (fault == "dampening-in-first-step") {
    ops.sgd_update = dampened_first;
  } else if (fault == "fma-in-sgd") {
    ops.sgd_update = contracted;
  } else {
    return false;
  }
  return true;
}

}  // namespace zeroproof::verification
