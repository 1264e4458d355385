#pragma once
// Gradient statistics of both sides for a skipped step (R14).

#include <optional>
#include <string>
#include <vector>

#include "common/step/distributed_optimizer.hpp"
#include "reference/dense_optimizer.hpp"
#include "verification/cases/case_layout.hpp"
#include "verification/cases/skipped_step.hpp"

namespace zeroproof::verification {

/// The implementation that a candidate calls, in the space of its gradients.
GradStatsFn* grad_stats_of(const Implementation& implementation);

class SkipStats {
 public:
  /// candidate: the implementation that is compared with the reference's function.
  SkipStats(const Experiment& experiment, const CaseSpec& spec, const CaseLayout& layout,
            Communicator& harness, const Exec& exec, GradStatsFn* candidate);

  /// Keeps G of both sides until it is decided whether the step is skipped: later phases overwrite
  /// it.
  void keep(const ExposedBuffer& reference, const ExposedBuffer& candidate);

  /// Statistics that differ between the two sides.
  struct Difference {
    std::string parameter;
    std::string what;  ///< "differs from the reference", ...
    std::string reference, candidate;
  };

  struct Comparison {
    SkippedStep
        skip;  ///< of the reference, over all ranks, each element once; the same on every rank
    std::optional<Difference> difference;  ///< the first on this rank
  };

  /// Compares the kept gradients. truth: the undistributed optimizer after the same step, or
  /// nullptr. Collective.
  Comparison compare(std::int64_t step, const reference::DenseOptimizer* truth);

 private:
  using Stats = std::vector<GradStats>;  // [num_tensors]

  Stats here(GradStatsFn* implementation, const Exec& exec, const std::vector<float>& grad) const;
  /// Whether this rank's copy of a part of a tensor is the counted one.
  bool counts(std::int64_t tensor) const;
  Stats over_ranks(Stats mine);
  std::optional<Difference> first_difference(const Stats& want, const Stats& got,
                                             const std::string& what) const;

  const Experiment& experiment_;
  const CaseLayout& layout_;
  Communicator& harness_;
  const Exec exec_;
  GradStatsFn* const candidate_;
  const int stage_;
  const bool bounded_;  // G of the candidate need not have the reference's bits
  std::vector<GradSegment> segments_;
  std::vector<float> reference_grad_, candidate_grad_;
};

}  // namespace zeroproof::verification
