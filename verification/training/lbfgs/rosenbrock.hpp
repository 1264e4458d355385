#pragma once
// The chained Rosenbrock function: few elements, ill-conditioned, with disturbances on demand.

#include "verification/training/lbfgs/problem.hpp"

namespace zeroproof::verification {

/// 1,046 elements in tensors of 3, 0, 1,025 and 2 x 9: with the contract's layout, buckets of 2,048 and three ranks,
/// the first rank owns nothing.
const FlatLayout& rosenbrock_layout();

/// Standard deviation 0.5 about 0, by global index. [padded_numel]; padding is NaN.
std::vector<float> rosenbrock_start(std::uint64_t seed);

/// f = mean over i of (1 - x_i)^2 + 100 (x_(i+1) - x_i^2)^2, elements of all tensors in order. Every rank gathers the
/// point and computes all terms in fp64; g is rounded once to fp32.
class RosenbrockClosure final : public Closure {
 public:
  /// disturbed: evaluations counted from 1 since construction, whatever their step.
  RosenbrockClosure(const LbfgsSetup& place, MeanLossFn* mean_loss,
                    std::vector<DisturbedEvaluation> disturbed);

 private:
  double compute(Span<const float> master_shard, Span<float> grad_shard) override;
  bool disturbed(Disturbance kind) const;

  const LbfgsSetup& place_;
  MeanLossFn* mean_loss_;
  std::vector<DisturbedEvaluation> disturbed_;
};

class Rosenbrock final : public LbfgsProblem {
 public:
  Rosenbrock(const LbfgsRecipe& recipe, std::uint64_t seed)
      : recipe_(recipe), start_(rosenbrock_start(seed)) {}

  const FlatLayout& layout() const override { return rosenbrock_layout(); }
  std::int64_t bucket_numel() const override { return 2048; }
  const std::vector<float>& start() const override { return start_; }
  std::unique_ptr<Closure> closure(const LbfgsSetup& place,
                                   const LbfgsImplementation& implementation,
                                   std::int64_t step) const override;

 private:
  const LbfgsRecipe& recipe_;
  std::vector<float> start_;
};

}  // namespace zeroproof::verification
