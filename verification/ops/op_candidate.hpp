#pragma once
// Whoever is judged on calls of operations. The judge, its sweeps and its reports know of a candidate what stands here.

#include <stdexcept>
#include <string>
#include <vector>

#include "common/base/exec.hpp"
#include "verification/cases/case.hpp"
#include "verification/ops/op.hpp"

namespace zeroproof::verification {

class OpCandidate {
 public:
  virtual ~OpCandidate() = default;

  /// What ids say of it, after the operation: "host/x86-64-v3", "device/cuda", "plugin/mine".
  virtual std::string id() const = 0;
  /// What reports say of it: "host x86-64-v3", "device", "plugin mine".
  virtual std::string side() const = 0;
  /// The value of --impl that asks for it.
  virtual Implementation kind() const = 0;

  /// Written by somebody else, who need not have chosen the contract's order of operations.
  virtual bool foreign() const { return kind().foreign; }

  /// False if there are no cases of this operation for it.
  virtual bool has(const Op& op) const = 0;
  /// Why it cannot run an operation here; "" if it can.
  virtual std::string obstacle(const Op& op) const = 0;

  /// The function that is judged: it takes a call's inputs, and writes its outputs. `fault`: identifier of a planted
  /// fault, or "". Only of operations it has, and without an obstacle. The function throws CandidateFailure for a
  /// verdict of its own, Error with ErrorCode::unavailable if it cannot run after all, anything else for an error.
  virtual OpFunction function(const Op& op, const std::string& fault) const = 0;

  /// True if it might know results by heart: it is then judged on a second seed too.
  virtual bool may_remember() const { return false; }
  /// At the end of a case: throws CandidateFailure if something happened after its last call was over.
  virtual void settle() const {}
};

/// What a candidate did instead of computing: it ended, did not come back, touched what is not its own. Skipped: it
/// does not support this call, and goes on with others.
class CandidateFailure : public std::runtime_error {
 public:
  CandidateFailure(Status status, const std::string& what)
      : std::runtime_error(what), status_(status) {}
  Status status() const { return status_; }

 private:
  Status status_;
};

/// The host implementations under one instruction set. There is one such object for each, valid for ever.
const OpCandidate& host_candidate(Isa isa);
/// The device implementations.
const OpCandidate& device_candidate();

/// Every candidate of this program, whether or not this machine runs it.
const std::vector<const OpCandidate*>& own_candidates();

}  // namespace zeroproof::verification
