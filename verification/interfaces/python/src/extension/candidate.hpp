#pragma once
// A Python callable as a candidate.

#include <exception>
#include <string>

#include "verification/interfaces/python/src/extension/object.hpp"
#include "verification/ops/op_candidate.hpp"

namespace zeroproof::python {

/// Calls are made on the judging thread, with the interpreter's lock.
class PythonCandidate final : public verification::OpCandidate {
 public:
  /// name: its name in ids. calls: the callable in this process (GuardedCalls), or in another one
  /// (zproof/isolation.py): call(numel, operands, settings, num_threads, text) writes results into
  /// the arrays of `operands`; settle(); both return None, or (status, reason).
  PythonCandidate(std::string name, py::Object calls);

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
  template <class Body>
  void ask(const Body& body) const;

  std::string name_;
  py::Object calls_;
  mutable std::exception_ptr pending_;
};

}  // namespace zeroproof::python
