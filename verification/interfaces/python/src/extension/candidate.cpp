#include "verification/interfaces/python/src/extension/candidate.hpp"

#include <utility>

#include "verification/interfaces/python/src/extension/arrays.hpp"
#include "verification/interfaces/python/src/extension/settings.hpp"
#include "verification/ops/failed_call.hpp"

namespace zeroproof::python {
namespace {

using verification::CandidateFailure;
using verification::Op;
using verification::OpCall;
using verification::OpSetting;
using verification::Status;

/// Verdicts about a call.
Status failure_named(const std::string& word) {
  for (const Status status : {Status::fail, Status::tampered, Status::crashed, Status::hung}) {
    if (verification::name(status) == word) return status;
  }
  return Status::error;
}

}  // namespace

PythonCandidate::PythonCandidate(std::string name, py::Object calls)
    : name_(std::move(name)), calls_(std::move(calls)) {}

verification::OpFunction PythonCandidate::function(const Op& op, const std::string&) const {
  return [this, &op](OpCall& call) { run(op, call); };
}

/// body: returns None, or (status, reason).
template <class Body>
void PythonCandidate::ask(const Body& body) const {
  if (!pending_) {
    const py::GilLock lock;
    try {
      const py::Object said = body();
      if (said.is_none()) return;
      const auto [status, reason] = py::cast<std::pair<std::string, std::string>>(said);
      throw CandidateFailure(failure_named(status), reason);
    } catch (const py::PythonError&) {
      pending_ = std::current_exception();
    }
  }
  throw CandidateFailure(Status::error, "the run was interrupted");
}

void PythonCandidate::run(const Op& op, OpCall& call) const {
  ask([&] {
    py::Dict operands;
    for (std::size_t k = 0; k < op.operands.size(); ++k) {
      const TensorView view = call.view(k);
      operands.set(op.operands[k].name,
                   numpy_array(view, {static_cast<std::size_t>(view.numel)}, py::none()));
    }
    const auto settings = op.settings ? op.settings(call) : std::vector<OpSetting>{};
    return calls_.attr("call")(call.numel(), operands, dict_of(settings), call.exec.num_threads,
                               verification::shape_text(op, call.shape()));
  });
}

void PythonCandidate::settle() const {
  ask([&] { return calls_.attr("settle")(); });
}

void PythonCandidate::raise_pending() const {
  if (pending_) std::rethrow_exception(pending_);
}

}  // namespace zeroproof::python
