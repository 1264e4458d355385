#include "reference/checks.hpp"
#include "reference/update/adaptive_step.hpp"
#include "reference/update_operations.hpp"

namespace zeroproof::reference {
namespace {

void check_lamb_numels(const char* operation, Span<const float> grad, Span<const float> master,
                       Span<const float> exp_avg, Span<const float> exp_avg_sq) {
  check_same_numel(operation, "grad", grad.size(), "master", master.size());
  check_same_numel(operation, "grad", grad.size(), "exp_avg", exp_avg.size());
  check_same_numel(operation, "grad", grad.size(), "exp_avg_sq", exp_avg_sq.size());
}

/// `u` of up to 1024 elements; moves the moments and not the master.
Block lamb_step(const LambOptions& options, const StepScalars& s, const ConstArray& grad,
                MutableArray master, MutableArray exp_avg, MutableArray exp_avg_sq) {
  return decoupled_step({.amsgrad = false, .maximize = options.maximize}, s,
                        {grad, master, exp_avg, exp_avg_sq, {nullptr, 0}});
}

MutableArray view_of(Block& block) { return {block.data(), block.size()}; }

}  // namespace

void lamb_norms(const Exec&, const LambOptions& options, const StepScalars& scalars,
                Span<const float> grad, Span<const float> master, Span<const float> exp_avg,
                Span<const float> exp_avg_sq, TrustNorms& norms) {
  check_lamb_numels("lamb_norms", grad, master, exp_avg, exp_avg_sq);
  for_each_block(numel(grad), [&](std::int64_t begin, std::int64_t count) {
    const auto block = [&](auto view) { return as_array(part(view, begin, count)); };
    // Copies: the update computes u and the moments once more.
    Block weight = block(master);
    Block first = block(exp_avg);
    Block second = block(exp_avg_sq);
    const Block u =
        lamb_step(options, scalars, block(grad), view_of(weight), view_of(first), view_of(second));
    const auto squares_of = [](const Block& values, NormLimbs& limbs) {
      grad_norm_exact_accumulate({}, {values.data(), static_cast<std::size_t>(values.size())},
                                 limbs);
    };
    squares_of(weight, norms.weight);
    squares_of(u, norms.update);
  });
}

float lamb_trust_ratio(const StepScalars& scalars, const TrustNorms& norms) {
  const double weight = grad_norm_finish(norms.weight);
  const double update = grad_norm_finish(norms.update);
  // A tensor of zeros must be able to move, and 0 / 0 is avoided [LAMB:alg2].
  if (weight == 0 || update == 0) return 1;
  const double n = double{scalars.lr} * weight;  // u contains lr, so it cancels [LAMB:units]
  const double q = n / update;
  return static_cast<float>(q);
}

void lamb_update(const Exec&, const LambOptions& options, const StepScalars& scalars,
                 float trust_ratio, Span<const float> grad, Span<float> master, Span<float> exp_avg,
                 Span<float> exp_avg_sq) {
  check_lamb_numels("lamb_update", grad, master, exp_avg, exp_avg_sq);
  for_each_block(numel(grad), [&](std::int64_t begin, std::int64_t count) {
    const auto block = [&](auto view) { return as_array(part(view, begin, count)); };
    const Block u =
        lamb_step(options, scalars, block(grad), block(master), block(exp_avg), block(exp_avg_sq));
    const Block p = trust_ratio * u;
    block(master) -= p;
  });
}

}  // namespace zeroproof::reference
