#pragma once
// A Python callable as a candidate.

#include <nanobind/nanobind.h>

#include <deque>
#include <exception>
#include <memory>
#include <string>

#include "verification/ops/op_candidate.hpp"

namespace zeroproof::python {

class CallMemory;

/// Calls are made on the judging thread, with the interpreter's lock. A call has its own memory,
/// which lives as long as any array of it: an array kept by the callable shows old numbers, never
/// memory of another call.
class PythonCandidate final : public verification::OpCandidate {
 public:
  /// name: its name in ids. invoke(operands, settings, num_threads): operands and settings are
  /// dicts; returns None, or a sentence if the callable raised. read_only: true if arrays of inputs
  /// are not writable.
  PythonCandidate(std::string name, nanobind::object invoke, bool read_only);
  ~PythonCandidate() override;

  std::string id() const override { return "python/" + name_; }
  std::string side() const override { return "python " + name_; }
  verification::Implementation kind() const override {
    return verification::Implementation::plugin;
  }
  bool has(const verification::Op&) const override { return true; }
  std::string obstacle(const verification::Op&) const override { return {}; }
  bool may_remember() const override { return true; }
  verification::OpFunction function(const verification::Op& op,
                                    const std::string& fault) const override;
  void settle() const override;

  /// Rethrows an exception of the callable that is no failure of its own: an interrupt, the end of
  /// a test.
  void raise_pending() const;

 private:
  void run(const verification::Op& op, verification::OpCall& call) const;
  void call_python(const verification::Op& op, const std::shared_ptr<CallMemory>& memory,
                   verification::OpCall& call) const;
  void look_back() const;

  std::string name_;
  nanobind::object invoke_;
  bool read_only_;
  mutable std::deque<std::shared_ptr<CallMemory>> earlier_;  // of the last calls: writes are errors
  mutable std::exception_ptr pending_;
};

}  // namespace zeroproof::python
