#pragma once
// Calls of a Python callable, in the process that has it.

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "common/base/span.hpp"
#include "verification/interfaces/python/src/extension/binding.hpp"
#include "verification/ops/op.hpp"

namespace zeroproof::python {

class CallMemory;

/// A call has its own memory, which lives as long as any array of it: an array kept by the callable
/// shows old numbers, never memory of another call. All functions need the interpreter's lock.
class GuardedCalls {
 public:
  /// invoke(operands, settings, num_threads): operands and settings are dicts; returns None, or a
  /// sentence if the callable raised. read_only: true if arrays of inputs are not writable.
  GuardedCalls(const verification::Op& op, py::Object invoke, bool read_only);
  ~GuardedCalls();

  const verification::Op& op() const { return *op_; }

  /// Calls with copies of `operands`, and writes the results into them. text: describes the call.
  /// Errors: CandidateFailure for a callable that raised or broke a rule; what the callable raises
  /// to end the run (an interrupt, the end of a test) is rethrown.
  void call(std::int64_t numel, const std::vector<TensorView>& operands, const py::Dict& settings,
            int num_threads, const std::string& text);

  /// At the end of a case: waits for late writes. Errors: CandidateFailure if there was one.
  void settle();

 private:
  void look_back();

  const verification::Op* op_;
  py::Object invoke_;
  bool read_only_;
  std::deque<std::shared_ptr<CallMemory>> earlier_;  // of the last calls: writes are errors
};

/// Adds the class to the module: call() and settle() return None or (status, reason).
void bind_guarded_calls(py::Module& module);

}  // namespace zeroproof::python
