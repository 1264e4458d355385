#include "cuda/optimizer/overlap/plan_executor.hpp"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/fpenv.hpp"
#include "common/base/philox.hpp"

namespace zeroproof::cuda {
namespace {

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

std::chrono::microseconds RandomDelays::delay(const PlanOp& op, std::size_t index,
                                              std::uint64_t num_runs) const {
  const Philox random(seed, static_cast<std::uint32_t>(op.stream),
                      static_cast<std::uint32_t>(num_runs));
  if (random.uniform(2 * index) >= probability[static_cast<std::size_t>(op.stream)]) return {};
  const auto bound = static_cast<std::uint64_t>(std::max<std::int64_t>(max_microseconds, 0)) + 1;
  return std::chrono::microseconds(random.word(2 * index + 1) % bound);
}

void RandomDelays::operator()(const PlanOp& op, std::size_t index, std::uint64_t num_runs) const {
  std::this_thread::sleep_for(delay(op, index, num_runs));
}

PlanExecutor::PlanExecutor(std::string who, ExecutorHooks hooks)
    : who_(std::move(who)), hooks_(std::move(hooks)) {}

PlanExecutor::~PlanExecutor() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void PlanExecutor::run(const StepPlan& plan, const PlanBody& body) {
  const bool communicates = std::any_of(plan.ops.begin(), plan.ops.end(), [](const PlanOp& op) {
    return op.stream == PlanStream::comm;
  });
  {
    const std::lock_guard lock(mutex_);
    job_ = {&plan, &body, std::vector<bool>(static_cast<std::size_t>(plan.num_events), false),
            {},    {},    nullptr};
    job_.ended[static_cast<std::size_t>(PlanStream::comm)] = !communicates;
    comm_has_work_ = communicates;
  }
  if (communicates && !thread_.joinable()) {
    try {
      thread_ = std::thread([this] { serve(); });
    } catch (const std::system_error& error) {
      fail(ErrorCode::unavailable,
           who_ + ": the communication thread did not start: " + error.what(),
           "overlap needs a second thread",
           "run without overlap, or allow this process more threads");
    }
  }
  changed_.notify_all();
  run_stream(PlanStream::compute);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return job_.ended[static_cast<std::size_t>(PlanStream::comm)]; });
  ++num_runs_;
  if (job_.failure) std::rethrow_exception(std::exchange(job_.failure, nullptr));
}

void PlanExecutor::serve() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stops_ || comm_has_work_; });
      if (stops_) return;
      comm_has_work_ = false;
    }
    run_stream(PlanStream::comm);
  }
}

void PlanExecutor::run_stream(PlanStream stream) {
  std::exception_ptr failure;
  try {
    for (std::size_t i = 0; i < job_.plan->ops.size(); ++i) {
      const PlanOp& op = job_.plan->ops[i];
      if (op.stream != stream) continue;
      if (!wait(stream, op)) break;
      run_op(op, i);
      if (op.records < 0) continue;
      const std::lock_guard lock(mutex_);
      job_.recorded.at(op.records) = true;
      changed_.notify_all();
    }
  } catch (...) {
    failure = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  if (failure && !job_.failure)
    job_.failure = std::move(failure);  // the caller must be the last owner
  job_.ended[static_cast<std::size_t>(stream)] = true;
  changed_.notify_all();
}

bool PlanExecutor::satisfied(const PlanOp& op) const {
  return std::all_of(op.waits.begin(), op.waits.end(),
                     [&](int event) { return job_.recorded.at(event); });
}

/// False if the other stream has failed.
bool PlanExecutor::wait(PlanStream stream, const PlanOp& op) {
  const auto mine = static_cast<std::size_t>(stream);
  const std::size_t other = 1 - mine;
  std::unique_lock lock(mutex_);
  while (!job_.failure && !satisfied(op)) {
    const PlanOp* blocked = job_.waiting[other];
    const bool is_hopeless = job_.ended[other] || (blocked != nullptr && !satisfied(*blocked));
    ZP_CHECK(!is_hopeless, ErrorCode::internal,
             who_ + ": " + name(op) + " waits for an event that no operation will record",
             "the other stream has ended or is waiting",
             "audit the plan (cuda/optimizer/overlap/plan_audit.hpp)");
    job_.waiting[mine] = &op;
    changed_.wait(lock);
    job_.waiting[mine] = nullptr;
  }
  return !job_.failure;
}

void PlanExecutor::run_op(const PlanOp& op, std::size_t index) const {
  if (!fp_environment_ok())
    require_fp_environment(who_ + ", " + std::string(name(op.stream)) + " thread");
  if (hooks_.before) hooks_.before(op, index, num_runs_);
  if (!hooks_.trace) return (*job_.body)(op);
  const std::int64_t begin = now_ns();
  (*job_.body)(op);
  hooks_.trace({op.stream, name(op), begin, now_ns()});
}

}  // namespace zeroproof::cuda
