#include <string>

#include "common/base/error.hpp"
#include "reference/blocks.hpp"
#include "reference/checks.hpp"
#include "reference/update/bf16_update.hpp"
#include "reference/update/descent.hpp"
#include "reference/update_operations.hpp"

namespace zeroproof::reference {
namespace {

/// The new momentum buffer: a decaying sum of all gradients so far (R6, [SGD:update]).
void gather_momentum(const StepScalars& s, const Block& g, MutableArray momentum_buffer) {
  if (s.is_first != 0) {
    momentum_buffer = g;  // not dampened; the old buffer is not read
    return;
  }
  const Block x = s.momentum * momentum_buffer;
  const Block y = s.one_minus_dampening * g;
  momentum_buffer = x + y;
}

/// R6 for up to 1024 elements, one line per rounding; momentum_buffer is empty without momentum.
void sgd_block(const SgdOptions& options, const StepScalars& s, const ConstArray& grad,
               MutableArray master, const MutableArray& momentum_buffer) {
  const Block g = directed_with_decay(options.maximize, s, grad, master);
  Block e = g;
  if (options.momentum) {
    gather_momentum(s, g, momentum_buffer);
    e = momentum_buffer;
  }
  if (options.nesterov) {
    // [SGD:nesterov]: the buffer as it would be after the same gradient again.
    const Block h = s.momentum * momentum_buffer;
    e = g + h;
  }
  const Block step = s.lr * e;
  master -= step;
}

void sgd_ema_block(const SgdEmaOptions& options, const StepScalars& s, const ConstArray& grad,
                   MutableArray master, MutableArray exp_avg) {
  const Block g = directed_with_decay(options.maximize, s, grad, master);
  // The weights add up to one [SGD:ema], so that lr has the same meaning for every beta1.
  const Block a1 = s.beta1 * exp_avg;
  const Block a2 = s.one_minus_beta1 * g;
  exp_avg = a1 + a2;
  const Block step = s.lr * exp_avg;
  master -= step;
}

/// Checks the arguments and updates block by block.
void run_sgd(const char* operation, const SgdOptions& options, const StepScalars& scalars,
             Span<const float> grad, Span<float> master, Span<float> momentum_buffer) {
  check_same_numel(operation, "grad", grad.size(), "master", master.size());
  check_optional_buffer(operation, "momentum_buffer", options.momentum, momentum_buffer.size(),
                        grad.size());
  ZP_CHECK(options.momentum || !options.nesterov, ErrorCode::invalid_argument,
           std::string(operation) + ": nesterov is on and momentum is off",
           "nesterov needs the momentum buffer", "enable momentum, or disable nesterov");
  for_each_block(numel(grad), [&](std::int64_t begin, std::int64_t count) {
    const auto block = [&](auto view) { return as_array(part(view, begin, count)); };
    sgd_block(options, scalars, block(grad), block(master),
              options.momentum ? block(momentum_buffer) : as_array(momentum_buffer));
  });
}

}  // namespace

void sgd_update(const Exec&, const SgdOptions& options, const StepScalars& scalars,
                Span<const float> grad, Span<float> master, Span<float> momentum_buffer) {
  run_sgd("sgd_update", options, scalars, grad, master, momentum_buffer);
}

void sgd_update_bf16(const Exec&, const SgdOptions& options, const StepScalars& scalars,
                     Span<const bf16> grad, Span<bf16> master, Span<float> momentum_buffer) {
  update_bf16(grad, master, [&](Span<const float> g, Span<float> p) {
    run_sgd("sgd_update_bf16", options, scalars, g, p, momentum_buffer);
  });
}

void sgd_ema_update(const Exec&, const SgdEmaOptions& options, const StepScalars& scalars,
                    Span<const float> grad, Span<float> master, Span<float> exp_avg) {
  check_same_numel("sgd_ema_update", "grad", grad.size(), "master", master.size());
  check_same_numel("sgd_ema_update", "grad", grad.size(), "exp_avg", exp_avg.size());
  for_each_block(numel(grad), [&](std::int64_t begin, std::int64_t count) {
    const auto block = [&](auto view) { return as_array(part(view, begin, count)); };
    sgd_ema_block(options, scalars, block(grad), block(master), block(exp_avg));
  });
}

}  // namespace zeroproof::reference
