#include "verification/interfaces/python/src/extension/guarded_calls.hpp"

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

bool is_in_place(const py::Dict& settings) {
  return settings.contains("in_place") && py::cast<std::int64_t>(settings.at("in_place")) == 1;
}

/// The settings that are whole numbers, among them the sizes of matrices.
std::vector<verification::OpSetting> sizes_of(const py::Dict& settings) {
  std::vector<verification::OpSetting> sizes;
  for (const auto& [name, value] : settings.items()) {
    if (const std::optional<std::int64_t> size = py::from_python<std::int64_t>(value))
      sizes.push_back({py::cast<std::string>(name), *size});
  }
  return sizes;
}

/// None, or (status, reason) of a failure.
template <class Body>
py::Object said_by(const Body& body) {
  try {
    body();
  } catch (const CandidateFailure& failure) {
    return py::make_tuple(std::string(verification::name(failure.status())), failure.what());
  }
  return py::none();
}

std::unique_ptr<GuardedCalls> guard(const std::string& op, const std::string& dtype,
                                    const py::Object& invoke, bool read_only) {
  return std::make_unique<GuardedCalls>(*judged_op(op, dtype_of(dtype)).op, invoke, read_only);
}

py::Object call_on(GuardedCalls& self, std::int64_t numel, const py::Dict& operands,
                   const py::Dict& settings, int num_threads, const std::string& text) {
  std::vector<TensorView> views;
  for (const verification::Operand& one : self.op().operands)
    views.push_back(host_array(operands.at(one.name), one.name, one.dtype, true).view);
  return said_by([&] { self.call(numel, views, settings, num_threads, text); });
}

py::Object settle_on(GuardedCalls& self) {
  return said_by([&] { self.settle(); });
}

}  // namespace

GuardedCalls::GuardedCalls(const Op& op, py::Object invoke, bool read_only)
    : op_(&op), invoke_(std::move(invoke)), read_only_(read_only) {}
GuardedCalls::~GuardedCalls() = default;

void GuardedCalls::call(std::int64_t numel, const std::vector<TensorView>& operands,
                        const py::Dict& settings, int num_threads, const std::string& text) {
  look_back();
  const std::vector<verification::OpSetting> sizes = sizes_of(settings);
  std::vector<std::vector<std::int64_t>> shapes;
  for (const verification::Operand& one : op_->operands)
    shapes.push_back(verification::shape_of(one, numel, sizes));
  auto memory = std::make_shared<CallMemory>(*op_, shapes, operands, text, is_in_place(settings));
  std::string environment;
  bool asked = false;
  {
    py::Dict arrays;
    const py::Object owner = owner_of(memory);
    for (std::size_t k = 0; k < op_->operands.size(); ++k) {
      const bool writable =
          !read_only_ || op_->operands[k].access != Access::in || memory->in_place();
      arrays.set(op_->operands[k].name,
                 numpy_array(memory->view(k), memory->shape(k), owner, writable));
    }
    const SameEnvironment same;
    const CandidateRuns running;
    const py::Object said = invoke_(arrays, settings, num_threads);
    if (!said.is_none()) throw CandidateFailure(Status::error, py::cast<std::string>(said));
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
    const py::GilRelease others_may_run;
    std::this_thread::sleep_for(settling);
  }
  look_back();
  earlier_.clear();
}

void bind_guarded_calls(py::Module& module) {
  py::Class<GuardedCalls>("GuardedCalls")
      .init<&guard>({"op", "dtype", "invoke", "read_only"})
      .def<&call_on>("call", {"numel", "operands", "settings", "num_threads", "text"})
      .def<&settle_on>("settle")
      .add_to(module);
}

}  // namespace zeroproof::python
