#include "reference/blocks.hpp"
#include "reference/checks.hpp"
#include "reference/update/descent.hpp"
#include "reference/update_operations.hpp"

namespace zeroproof::reference {
namespace {

/// The views of up to 1024 elements. max_exp_avg_sq is empty without amsgrad.
struct AdamBlock {
  ConstArray grad;
  MutableArray master, exp_avg, exp_avg_sq, max_exp_avg_sq;
};

/// The common part of adamw and adam [Adam:alg1], one line per rounding (R6): moments, denominator
/// and the step `a`. The names are those of the contract.
Block adaptive_step(const AdamOptions& options, const StepScalars& s, const Block& g, AdamBlock x) {
  // First moment: running mean of the gradient.
  const Block a1 = s.beta1 * x.exp_avg;
  const Block a2 = s.one_minus_beta1 * g;
  x.exp_avg = a1 + a2;

  // Second moment: running mean of its square.
  const Block h = g * g;
  const Block b1 = s.beta2 * x.exp_avg_sq;
  const Block b2 = s.one_minus_beta2 * h;
  x.exp_avg_sq = b1 + b2;

  // The denominator. eps is outside the root, so it bounds the step even where the gradient was
  // always 0.
  Block moment = x.exp_avg_sq;
  if (options.amsgrad) {
    // [Adam:amsgrad]. An explicit comparison, which is false for a NaN on either side; a library
    // maximum might not be (R4).
    x.max_exp_avg_sq = (x.max_exp_avg_sq >= moment).select(x.max_exp_avg_sq, moment);
    moment = x.max_exp_avg_sq;
  }
  const Block root = moment.sqrt();
  const Block r = root / s.sqrt_bias_correction2;
  const Block d = r + s.eps;

  const Block q = x.exp_avg / d;
  return s.step_size * q;
}

void adamw_block(const AdamOptions& options, const StepScalars& s, AdamBlock x) {
  const Block g = apply_direction(options.maximize, x.grad);
  const Block a = adaptive_step(options, s, g, x);
  if (s.has_decay != 0) {
    // Decoupled decay [AdamW:alg2], as a term and not as a factor of master [AdamW:additive]: both
    // parts are added first, so that master is rounded once [AdamW:once].
    const Block w = s.lr_weight_decay * x.master;
    const Block u = a + w;
    x.master -= u;
  } else {
    x.master -= a;  // the decay is not evaluated, instead of adding 0 (R6)
  }
}

void adam_block(const AdamOptions& options, const StepScalars& s, AdamBlock x) {
  const Block g = directed_with_decay(options.maximize, s, x.grad, x.master);
  const Block a = adaptive_step(options, s, g, x);
  x.master -= a;
}

/// Checks the lengths and runs `update` block by block.
template <class UpdateBlock>
void update(const char* operation, const AdamOptions& options, const StepScalars& scalars,
            Span<const float> grad, Span<float> master, Span<float> exp_avg, Span<float> exp_avg_sq,
            Span<float> max_exp_avg_sq, UpdateBlock update_block) {
  check_same_numel(operation, "grad", grad.size(), "master", master.size());
  check_same_numel(operation, "grad", grad.size(), "exp_avg", exp_avg.size());
  check_same_numel(operation, "grad", grad.size(), "exp_avg_sq", exp_avg_sq.size());
  check_optional_buffer(operation, "max_exp_avg_sq", options.amsgrad, max_exp_avg_sq.size(),
                        grad.size());
  for_each_block(numel(grad), [&](std::int64_t begin, std::int64_t count) {
    const auto block = [&](auto view) { return as_array(part(view, begin, count)); };
    update_block(options, scalars,
                 AdamBlock{block(grad), block(master), block(exp_avg), block(exp_avg_sq),
                           options.amsgrad ? block(max_exp_avg_sq) : as_array(max_exp_avg_sq)});
  });
}

}  // namespace

void adamw_update(const Exec&, const AdamOptions& options, const StepScalars& scalars,
                  Span<const float> grad, Span<float> master, Span<float> exp_avg,
                  Span<float> exp_avg_sq, Span<float> max_exp_avg_sq) {
  update("adamw_update", options, scalars, grad, master, exp_avg, exp_avg_sq, max_exp_avg_sq,
         adamw_block);
}

void adam_update(const Exec&, const AdamOptions& options, const StepScalars& scalars,
                 Span<const float> grad, Span<float> master, Span<float> exp_avg,
                 Span<float> exp_avg_sq, Span<float> max_exp_avg_sq) {
  update("adam_update", options, scalars, grad, master, exp_avg, exp_avg_sq, max_exp_avg_sq,
         adam_block);
}

}  // namespace zeroproof::reference
