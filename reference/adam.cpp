#include "reference/adam.hpp"

#include "reference/blocks.hpp"
#include "reference/checks.hpp"

namespace zeroproof::reference {
namespace {

/// R6 for up to 1024 elements, one line per rounding. The names are those of the contract.
void update_block(const StepScalars& s, ConstArray grad, MutableArray master, MutableArray exp_avg,
                  MutableArray exp_avg_sq) {
  // First moment: where the gradient has pointed lately.
  const Block a1 = s.beta1 * exp_avg;
  const Block a2 = s.one_minus_beta1 * grad;
  exp_avg = a1 + a2;

  // Second moment: how large it has been lately.
  const Block h = grad * grad;
  const Block b1 = s.beta2 * exp_avg_sq;
  const Block b2 = s.one_minus_beta2 * h;
  exp_avg_sq = b1 + b2;

  // The denominator. eps stands outside the root, so it bounds the step even where the gradient was always 0.
  const Block root = exp_avg_sq.sqrt();
  const Block r = root / s.sqrt_bias_correction2;
  const Block d = r + s.eps;

  const Block q = exp_avg / d;
  const Block a = s.step_size * q;
  if (s.has_decay != 0) {
    // Decoupled decay [AdamW:alg2]: both parts are added first, so that master is rounded once.
    const Block w = s.lr_weight_decay * master;
    const Block u = a + w;
    master -= u;
  } else {
    // Not evaluated, rather than added as 0: an infinite master times 0 would be NaN (R6).
    master -= a;
  }
}

}  // namespace

void adamw_update(const Exec&, const StepScalars& scalars, Span<const float> grad, Span<float> master,
                  Span<float> exp_avg, Span<float> exp_avg_sq) {
  check_same_numel("adamw_update", "grad", grad.size(), "master", master.size());
  check_same_numel("adamw_update", "grad", grad.size(), "exp_avg", exp_avg.size());
  check_same_numel("adamw_update", "grad", grad.size(), "exp_avg_sq", exp_avg_sq.size());
  for_each_block(numel(grad), [&](std::int64_t begin, std::int64_t count) {
    update_block(scalars, as_array(part(grad, begin, count)), as_array(part(master, begin, count)),
                 as_array(part(exp_avg, begin, count)), as_array(part(exp_avg_sq, begin, count)));
  });
}

}  // namespace zeroproof::reference
