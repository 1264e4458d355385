#pragma once

#include <nanobind/nanobind.h>

namespace zeroproof::python {

/// Adds the reference implementations to the module, each on arrays and in place: what zproof/reference.py calls.
void bind_reference(nanobind::module_& module);

/// While one of these lives, a candidate is computing: a call of a reference implementation meanwhile, from any thread, is recorded.
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
