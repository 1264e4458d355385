#pragma once
// A candidate whose calls of operations are judged; the interface used by judge, sweeps and
// reports.

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

  /// Its part of an id, after the operation: "host/x86-64-v3", "device/cuda", "plugin/mine".
  virtual std::string id() const = 0;
  /// Its name in reports: "host x86-64-v3", "device", "plugin mine".
  virtual std::string side() const = 0;
  /// The value of --impl that selects it.
  virtual Implementation kind() const = 0;

  /// Foreign code, which need not use the contract's order of operations.
  virtual bool foreign() const { return kind().foreign; }

  /// False if there are no cases of this operation for it.
  virtual bool has(const Op& op) const = 0;
  /// The reason why it cannot run an operation here; "" if it can.
  virtual std::string obstacle(const Op& op) const = 0;

  /// The judged function: it reads a call's inputs and writes its outputs. `fault`: identifier of a
  /// planted fault, or "". Only for operations it has, without an obstacle. The function throws
  /// CandidateFailure for a separate verdict, Error with ErrorCode::unavailable if it cannot run
  /// after all, anything else for an error.
  virtual OpFunction function(const Op& op, const std::string& fault) const = 0;

  /// True if it might replay stored results: it is then judged on a second seed too.
  virtual bool may_remember() const { return false; }
  /// At the end of a case: throws CandidateFailure for events after its last call.
  virtual void settle() const {}
};

/// A candidate ended, did not return, or wrote outside its buffers. Skipped: it does not support
/// this call, and continues with others.
class CandidateFailure : public std::runtime_error {
 public:
  CandidateFailure(Status status, const std::string& what)
      : std::runtime_error(what), status_(status) {}
  Status status() const { return status_; }

 private:
  Status status_;
};

/// The host implementations of one instruction set. One object for each, with static lifetime.
const OpCandidate& host_candidate(Isa isa);
/// The device implementations.
const OpCandidate& device_candidate();

/// Every candidate of this program, including those that this machine cannot run.
const std::vector<const OpCandidate*>& own_candidates();

}  // namespace zeroproof::verification
