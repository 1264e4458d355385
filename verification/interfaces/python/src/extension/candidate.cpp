#include "verification/interfaces/python/src/extension/candidate.hpp"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <cfenv>
#include <chrono>
#include <thread>

#include "common/base/fpenv.hpp"
#include "verification/interfaces/python/src/extension/arrays.hpp"
#include "verification/interfaces/python/src/extension/call_memory.hpp"
#include "verification/interfaces/python/src/extension/reference_ops.hpp"

namespace zeroproof::python {
namespace {

namespace nb = nanobind;
using verification::Access;
using verification::CandidateFailure;
using verification::Op;
using verification::OpCall;
using verification::OpSetting;
using verification::Status;

constexpr std::size_t watched_calls = 4;
constexpr std::chrono::milliseconds settling{20};

std::vector<OpSetting> settings_of_call(const Op& op, const OpCall& call) {
  return op.settings ? op.settings(call) : std::vector<OpSetting>{};
}

bool is_in_place(const std::vector<OpSetting>& settings) {
  return std::ranges::any_of(settings, [](const OpSetting& setting) {
    return setting.name == "in_place" && setting.value == decltype(setting.value)(std::int64_t{1});
  });
}

nb::dict dict_of_settings(const std::vector<OpSetting>& settings) {
  nb::dict dict;
  for (const OpSetting& setting : settings)
    std::visit([&](auto value) { dict[setting.name.c_str()] = value; }, setting.value);
  return dict;
}

/// The callable gets the environment the contract needs, and must not change it.
class SameEnvironment {
 public:
  SameEnvironment() { std::fegetenv(&before_); }
  ~SameEnvironment() { std::fesetenv(&before_); }
  SameEnvironment(const SameEnvironment&) = delete;
  SameEnvironment& operator=(const SameEnvironment&) = delete;

 private:
  std::fenv_t before_{};
};

}  // namespace

PythonCandidate::PythonCandidate(std::string name, nb::object invoke, bool read_only)
    : name_(std::move(name)), invoke_(std::move(invoke)), read_only_(read_only) {}
PythonCandidate::~PythonCandidate() = default;

verification::OpFunction PythonCandidate::function(const Op& op, const std::string&) const {
  return [this, &op](OpCall& call) { run(op, call); };
}

void PythonCandidate::run(const Op& op, OpCall& call) const {
  if (pending_) throw CandidateFailure(Status::error, "the run was interrupted");
  look_back();
  const bool in_place = is_in_place(settings_of_call(op, call));
  auto memory = std::make_shared<CallMemory>(op, call, in_place);
  std::string environment;
  bool asked = false;
  {
    const SameEnvironment same;
    const CandidateRuns running;
    call_python(op, memory, call);
    asked = running.asked_reference();
    environment = fp_environment_problem();
  }
  if (asked)
    throw CandidateFailure(Status::tampered, "it called zproof.reference instead of computing");
  if (!environment.empty())
    throw CandidateFailure(Status::fail, "it left the thread so that " + environment);
  const std::string damaged = memory->damaged();
  if (!damaged.empty())
    throw CandidateFailure(Status::fail, damaged + " was written outside its bounds");
  const std::string edited = memory->edited(call);
  if (!edited.empty())
    throw CandidateFailure(Status::tampered, "the input " + edited + " was edited");
  memory->copy_back(call);
  memory->seal();
  earlier_.push_back(std::move(memory));
  if (earlier_.size() > watched_calls) earlier_.pop_front();
}

void PythonCandidate::call_python(const Op& op, const std::shared_ptr<CallMemory>& memory,
                                  OpCall& call) const {
  const nb::gil_scoped_acquire lock;
  try {
    nb::dict operands;
    const nb::capsule owner = owner_of(memory);
    for (std::size_t k = 0; k < op.operands.size(); ++k) {
      const bool writable =
          !read_only_ || op.operands[k].access != Access::in || memory->in_place();
      operands[op.operands[k].name.c_str()] =
          numpy_array(memory->view(k), memory->shape(k), owner, writable);
    }
    const nb::object said =
        invoke_(operands, dict_of_settings(settings_of_call(op, call)), call.exec.num_threads);
    if (!said.is_none()) throw CandidateFailure(Status::error, nb::cast<std::string>(said));
  } catch (const nb::python_error&) {
    pending_ = std::current_exception();
  }
  if (pending_) throw CandidateFailure(Status::error, "the run was interrupted");
}

/// Writes after the end of a call change results that were already returned.
void PythonCandidate::look_back() const {
  for (const auto& memory : earlier_) {
    const std::string written = memory->written_since();
    if (written.empty()) continue;
    const std::string text =
        written + " was written after the call was over (" + memory->text() + ")";
    earlier_.clear();
    throw CandidateFailure(Status::tampered, text);
  }
}

void PythonCandidate::settle() const {
  std::this_thread::sleep_for(settling);
  look_back();
  earlier_.clear();
}

void PythonCandidate::raise_pending() const {
  if (pending_) std::rethrow_exception(pending_);
}

}  // namespace zeroproof::python
