#include "reference/blocks.hpp"
#include "reference/checks.hpp"
#include "reference/update/bf16_update.hpp"
#include "reference/update/descent.hpp"
#include "reference/update_operations.hpp"

namespace zeroproof::reference {
namespace {

/// One of 1, -1, +0, -0 and NaN [Lion:sign].
float sign_of(float c) {
  if (c > 0) return 1;
  if (c < 0) return -1;
  return c;  // a zero keeps its sign, and a NaN stays NaN
}

/// R6 for up to 1024 elements, one line per rounding.
void lion_block(bool maximize, const StepScalars& s, const ConstArray& grad, MutableArray master,
                MutableArray exp_avg) {
  const Block g = apply_direction(maximize, grad);
  // The direction: a fast average, used in this step only [Lion:alg2].
  const Block a1 = s.beta1 * exp_avg;
  const Block a2 = s.one_minus_beta1 * g;
  const Block c = a1 + a2;
  const Block e = c.unaryExpr(&sign_of);
  const Block a = s.lr * e;
  Block u = a;
  if (s.has_decay != 0) {
    const Block w = s.lr_weight_decay * master;
    u = a + w;
  }
  master -= u;
  // The stored momentum: a slow average, from the same old value.
  const Block b1 = s.beta2 * exp_avg;
  const Block b2 = s.one_minus_beta2 * g;
  exp_avg = b1 + b2;
}

/// Checks the lengths and updates block by block.
void run_lion(const char* operation, const LionOptions& options, const StepScalars& scalars,
              Span<const float> grad, Span<float> master, Span<float> exp_avg) {
  check_same_numel(operation, "grad", grad.size(), "master", master.size());
  check_same_numel(operation, "grad", grad.size(), "exp_avg", exp_avg.size());
  for_each_block(numel(grad), [&](std::int64_t begin, std::int64_t count) {
    const auto block = [&](auto view) { return as_array(part(view, begin, count)); };
    lion_block(options.maximize, scalars, block(grad), block(master), block(exp_avg));
  });
}

}  // namespace

void lion_update(const Exec&, const LionOptions& options, const StepScalars& scalars,
                 Span<const float> grad, Span<float> master, Span<float> exp_avg) {
  run_lion("lion_update", options, scalars, grad, master, exp_avg);
}

void lion_update_bf16(const Exec&, const LionOptions& options, const StepScalars& scalars,
                      Span<const bf16> grad, Span<bf16> master, Span<float> exp_avg) {
  update_bf16(grad, master, [&](Span<const float> g, Span<float> p) {
    run_lion("lion_update_bf16", options, scalars, g, p, exp_avg);
  });
}

}  // namespace zeroproof::reference
