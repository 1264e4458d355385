#pragma once
// The run of one case through the steps.

#include <memory>
#include <string>
#include <vector>

#include "verification/training/ranks/world.hpp"

namespace zeroproof::verification {

/// Builds candidates, with a fault or, for "", without one. Errors: unavailable if this build or
/// machine has no such implementation, or this program no planted faults.
RankComparison::MakeOptimizer candidate_factory(Implementation implementation,
                                                const std::string& fault = "",
                                                Mode mode = Mode::lockstep);

/// True if `a` comes first in the data flow: step, phase, buffer of the phase, and then the rank.
bool earlier(const Divergence& a, const Divergence& b);

class CaseRun {
 public:
  /// fault: identifier of a planted fault for the candidate, "" for none. cases_at_once: number of
  /// cases that share this machine. keep_messages: the first difference names the message with
  /// which it came, if that arrived with other bytes than were sent.
  CaseRun(const Experiment& experiment, const CaseSpec& spec, std::unique_ptr<World> world,
          std::string fault, int cases_at_once = 1, bool keep_messages = false);

  const CaseSpec& spec() const { return spec_; }

  /// Runs one step on all ranks of this process. After an error or a stop, further steps do nothing.
  void run_step(std::int64_t step, GradCache& leaves, const reference::DenseOptimizer* truth);

  /// Results of a plug-in in lock-step may be those of any legal order; before the first step.
  void accept_any_order();

  /// Verdict over all steps so far. `truth_hash`: trajectory of the undistributed optimizer, if
  /// this process has it. Collective over the processes of the case; complete in the process of
  /// rank 0.
  Result result(const std::optional<Digest>& truth_hash, const std::string& replay);

  /// True if an error ended the case.
  bool broke_off() const { return !error_.empty(); }

  /// Ends the case with a status and the reason for it; further steps do nothing.
  void end(Status status, const std::string& reason);

 private:
  void record_error(const std::exception& error, const std::string& when);
  std::vector<RankReport> reports() const;

  const Experiment& experiment_;
  CaseSpec spec_;
  std::unique_ptr<World> world_;
  std::string fault_;
  CaseLayout layout_;
  std::vector<std::unique_ptr<Communicator>> transport_;  // [ranks_], null without a fault in it
  std::vector<std::unique_ptr<RankComparison>> ranks_;
  std::vector<std::optional<StepCalls>> device_calls_;  // [ranks_]
  std::int64_t steps_ = 0;
  bool over_ = false, any_order_ = false;
  Status error_status_ = Status::pass;
  std::string error_;
  std::vector<RankFlight> flights_;
};

}  // namespace zeroproof::verification
