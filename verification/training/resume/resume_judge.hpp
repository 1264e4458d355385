#pragma once
// One rank of a resumed run, compared with an uninterrupted undistributed run.

#include <string>

#include "reference/dense_optimizer.hpp"
#include "verification/cases/case_layout.hpp"
#include "verification/compare/judge.hpp"

namespace zeroproof::verification {

/// Compares the bits of every exposed element after every phase, under the NaN rule of R9.
class ResumeJudge final : public StepObserver {
 public:
  ResumeJudge(const Experiment& experiment, const CaseLayout& layout, int rank)
      : experiment_(experiment), layout_(layout), rank_(rank) {}

  /// Starts a step. truth: the undistributed optimizer after it.
  void begin_step(std::int64_t step, const reference::DenseOptimizer& truth);

  /// Compares the loaded state with the state after that step: master and the rule's state,
  /// counters, loss scaler, parameters.
  void loaded(std::int64_t step, const reference::DenseOptimizer& truth,
              DistributedOptimizer& optimizer);

  /// Compares all that the optimizer shows after a step that it made in one call.
  void stepped(DistributedOptimizer& optimizer);

  void observe(Phase phase, const ExposedBuffer& buffer) override;

  const Judge& judge() const { return judge_; }

 private:
  void compare(Phase phase, const ExposedBuffer& buffer, const std::string& what);

  const Experiment& experiment_;
  const CaseLayout& layout_;
  const int rank_;
  std::int64_t step_ = 0;
  const reference::DenseOptimizer* truth_ = nullptr;
  Judge judge_;
};

}  // namespace zeroproof::verification
