#pragma once

#include "verification/interfaces/python/src/extension/binding.hpp"

namespace zeroproof::python {

/// Adds the reference implementations to the module, each on arrays and in place, for
/// zproof/reference.py.
void bind_reference(py::Module& module);

/// Begins every call that computes with the reference: it is recorded, and the thread must not have
/// another rounding mode or flush subnormals (R3).
void enter();

/// While an instance lives, a candidate is computing: calls of a reference implementation from any
/// thread are recorded.
class CandidateRuns {
 public:
  CandidateRuns();
  ~CandidateRuns();
  CandidateRuns(const CandidateRuns&) = delete;
  CandidateRuns& operator=(const CandidateRuns&) = delete;

  /// True if a reference implementation was called since.
  bool asked_reference() const;
};

}  // namespace zeroproof::python
