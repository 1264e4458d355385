#pragma once
// L-BFGS trains byte_gpt_tiny: the mean loss of one set of micro-batches, the same in every step.

#include "verification/cases/experiment.hpp"
#include "verification/training/lbfgs/problem.hpp"

namespace zeroproof::verification {

/// The experiment of a configuration for L-BFGS: fp32, one set of micro-batches, no planted
/// overflow.
Experiment lbfgs_experiment(RunConfig config);

/// Loss and gradient of the micro-batches of step 1. A rank computes the gradients of a contiguous
/// block of them; all gradients and losses are gathered, and the implementation adds them (R11),
/// divides by their number (R6, S = 1) and averages the losses (R21).
class ByteGptClosure final : public Closure {
 public:
  ByteGptClosure(const LbfgsSetup& place, const LbfgsImplementation& implementation,
                 const Experiment& experiment);

 private:
  double compute(Span<const float> master_shard, Span<float> grad_shard) override;

  const LbfgsSetup& place_;
  const LbfgsImplementation& implementation_;
  const Experiment& experiment_;
  float inv_scale_;
};

class ByteGptProblem final : public LbfgsProblem {
 public:
  explicit ByteGptProblem(const RunConfig& config);

  const FlatLayout& layout() const override { return experiment_.layout(); }
  std::int64_t bucket_numel() const override { return 4096; }
  const std::vector<float>& start() const override { return start_; }
  std::unique_ptr<Closure> closure(const LbfgsSetup& place,
                                   const LbfgsImplementation& implementation,
                                   std::int64_t step) const override;

 private:
  Experiment experiment_;
  std::vector<float> start_;
};

}  // namespace zeroproof::verification
