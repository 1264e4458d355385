#include "verification/interfaces/python/src/extension/guarded_calls.hpp"

#include <nanobind/stl/string.h>

#include <cfenv>
#include <chrono>
#include <thread>

#include "common/base/fpenv.hpp"
#include "verification/interfaces/python/src/extension/arrays.hpp"
#include "verification/interfaces/python/src/extension/call_memory.hpp"
#include "verification/interfaces/python/src/extension/judged_op.hpp"
#include "verification/interfaces/python/src/extension/reference_ops.hpp"
#include "verification/interfaces/python/src/extension/settings.hpp"
#include "verification/ops/op_candidate.hpp"

namespace zeroproof::python {
namespace {

namespace nb = nanobind;
using verification::Access;
using verification::CandidateFailure;
using verification::Op;
using verification::Status;

constexpr std::size_t watched_calls = 4;
constexpr std::chrono::milliseconds settling{20};

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

bool is_in_place(const nb::dict& settings) {
  return settings.contains("in_place") && nb::cast<std::int64_t>(settings["in_place"]) == 1;
}

/// None, or (status, reason) of a failure.
template <class Body>
nb::object said_by(const Body& body) {
  try {
    body();
  } catch (const CandidateFailure& failure) {
    return nb::make_tuple(std::string(verification::name(failure.status())), failure.what());
  }
  return nb::none();
}

}  // namespace

GuardedCalls::GuardedCalls(const Op& op, nb::object invoke, bool read_only)
    : op_(&op), invoke_(std::move(invoke)), read_only_(read_only) {}
GuardedCalls::~GuardedCalls() = default;

void GuardedCalls::call(std::int64_t numel, const std::vector<TensorView>& operands,
                        const nb::dict& settings, int num_threads, const std::string& text) {
  look_back();
  auto memory = std::make_shared<CallMemory>(*op_, numel, operands, text, is_in_place(settings));
  std::string environment;
  bool asked = false;
  {
    nb::dict arrays;
    const nb::capsule owner = owner_of(memory);
    for (std::size_t k = 0; k < op_->operands.size(); ++k) {
      const bool writable =
          !read_only_ || op_->operands[k].access != Access::in || memory->in_place();
      arrays[op_->operands[k].name.c_str()] =
          numpy_array(memory->view(k), memory->shape(k), owner, writable);
    }
    const SameEnvironment same;
    const CandidateRuns running;
    const nb::object said = invoke_(arrays, settings, num_threads);
    if (!said.is_none()) throw CandidateFailure(Status::error, nb::cast<std::string>(said));
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
  const std::string edited = memory->edited(operands);
  if (!edited.empty())
    throw CandidateFailure(Status::tampered, "the input " + edited + " was edited");
  memory->copy_back(operands);
  memory->seal();
  earlier_.push_back(std::move(memory));
  if (earlier_.size() > watched_calls) earlier_.pop_front();
}

/// Writes after the end of a call change results that were already returned.
void GuardedCalls::look_back() {
  for (const auto& memory : earlier_) {
    const std::string written = memory->written_since();
    if (written.empty()) continue;
    const std::string text =
        written + " was written after the call was over (" + memory->text() + ")";
    earlier_.clear();
    throw CandidateFailure(Status::tampered, text);
  }
}

void GuardedCalls::settle() {
  {
    const nb::gil_scoped_release others_may_run;
    std::this_thread::sleep_for(settling);
  }
  look_back();
  earlier_.clear();
}

void bind_guarded_calls(nb::module_& module) {
  using namespace nb::literals;
  nb::class_<GuardedCalls>(module, "GuardedCalls")
      .def(
          "__init__",
          [](GuardedCalls* self, const std::string& op, const std::string& dtype, nb::object invoke,
             bool read_only) {
            new (self)
                GuardedCalls(*judged_op(op, dtype_of(dtype)).op, std::move(invoke), read_only);
          },
          "op"_a, "dtype"_a, "invoke"_a, "read_only"_a)
      .def(
          "call",
          [](GuardedCalls& self, std::int64_t numel, const nb::dict& operands,
             const nb::dict& settings, int num_threads, const std::string& text) {
            std::vector<TensorView> views;
            for (const verification::Operand& one : self.op().operands) {
              views.push_back(
                  host_array(operands[one.name.c_str()], one.name, one.dtype, true).view);
            }
            return said_by([&] { self.call(numel, views, settings, num_threads, text); });
          },
          "numel"_a, "operands"_a, "settings"_a, "num_threads"_a, "text"_a)
      .def("settle", [](GuardedCalls& self) { return said_by([&] { self.settle(); }); });
}

}  // namespace zeroproof::python
