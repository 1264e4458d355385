#include "cuda/device/sim/streams.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/error.hpp"
#include "cuda/device/runtime/calls.hpp"
#include "cuda/device/runtime/stream.hpp"
#include "cuda/device/sim/capture.hpp"
#include "cuda/device/sim/current.hpp"
#include "cuda/device/sim/device_memory.hpp"
#include "cuda/device/sim/simulator.hpp"
#include "cuda/device/sim/work_queue.hpp"

namespace zeroproof::cuda::device {

struct Stream::Queue {
  std::shared_ptr<sim::WorkQueue> work = std::make_shared<sim::WorkQueue>();
};

struct Event::Mark {
  sim::Mark at;
};

}  // namespace zeroproof::cuda::device

namespace zeroproof::cuda::sim {

namespace {

StreamOrder order_of_environment() {
  const char* const given = std::getenv("ZP_SIM_ORDER");
  const std::string name = given == nullptr ? "" : given;
  if (name.empty() || name == "awaited_first") return StreamOrder::awaited_first;
  if (name == "awaited_last") return StreamOrder::awaited_last;
  if (name == "early") return StreamOrder::early;
  fail(ErrorCode::config, "ZP_SIM_ORDER is '" + name + "', which is no stream order", "",
       "use awaited_first, awaited_last or early");
}

/// Every queue that may have work, including those of destroyed streams.
struct Device {
  StreamOrder order = order_of_environment();
  std::vector<std::weak_ptr<WorkQueue>> queues;
  std::vector<std::shared_ptr<WorkQueue>> left_behind;  ///< of streams that were destroyed
};

Device& device() {
  static Device one;
  return one;
}

std::shared_ptr<WorkQueue> listed(std::shared_ptr<WorkQueue> queue) {
  const std::lock_guard lock(device_mutex());
  std::erase_if(device().queues, [](const auto& one) { return one.expired(); });
  device().queues.push_back(queue);
  return queue;
}

WorkQueue& current() { return *device::current_stream().queue().work; }

std::vector<std::shared_ptr<WorkQueue>> all_but(const WorkQueue* awaited) {
  std::vector<std::shared_ptr<WorkQueue>> others;
  for (const std::weak_ptr<WorkQueue>& one : device().queues) {
    if (std::shared_ptr<WorkQueue> queue = one.lock(); queue && queue.get() != awaited)
      others.push_back(std::move(queue));
  }
  return others;
}

/// Runs work that no thread can wait for any more before any work with a waiter.
void run_left_behind() {
  std::vector<std::shared_ptr<WorkQueue>>& queues = device().left_behind;
  for (std::size_t i = queues.size(); i-- > 0;) {
    if (queues[i]->run_until(queues[i]->end_position()))
      queues.erase(queues.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

/// Whether the device can run work that the queue's waiter needs.
bool has_work(const WorkQueue& queue) {
  if (queue.ready() || !device().left_behind.empty()) return true;
  if (device().order != StreamOrder::awaited_last) return false;
  const auto others = all_but(&queue);
  return std::any_of(others.begin(), others.end(),
                     [](const auto& other) { return other->ready(); });
}

/// False if the stream waits for a mark that is not enqueued yet; the device memory then stays
/// inaccessible, because opening it takes long.
bool run_until(WorkQueue& queue, std::int64_t position) {
  const bool check_only = device().order == StreamOrder::early;  // the work ran without a check
  if (!has_work(queue) && !check_only) return queue.passed(position);
  const DeviceWorks works;
  run_left_behind();
  if (device().order == StreamOrder::awaited_last) {
    for (const std::shared_ptr<WorkQueue>& other : all_but(&queue))
      other->run_until(other->end_position());
  }
  const bool passed = queue.run_until(position);
  DeviceMemory::instance().check_guards();
  return passed;
}

/// Runs one piece of work. False if there is none that can run.
bool advance(WorkQueue& queue) {
  if (device().order == StreamOrder::awaited_last) {
    bool worked = false;
    for (const std::shared_ptr<WorkQueue>& other : all_but(&queue))
      worked = worked || other->run_one();
    if (worked) return true;
  }
  return queue.run_one();
}

/// Returns whether the position has been passed. The first poll after new work runs one piece, so
/// that hosts observe partly executed streams; every further poll runs twice as many, because each
/// poll opens the device's memory, which takes longer than most pieces. If nothing can run, the
/// memory stays closed.
bool make_progress(WorkQueue& queue, std::int64_t position) {
  constexpr int most_pieces = 256;
  if (queue.passed(position)) return true;
  if (!has_work(queue)) return false;
  const DeviceWorks works;
  const int pieces = queue.pace;
  queue.pace = std::min(2 * pieces, most_pieces);
  for (int i = 0; i < pieces && !queue.passed(position); ++i) {
    if (!advance(queue)) break;
  }
  const bool passed = queue.passed(position);
  if (passed) DeviceMemory::instance().check_guards();
  return passed;
}

}  // namespace

void set_stream_order(StreamOrder order) {
  const std::lock_guard lock(device_mutex());
  device().order = order;
}

StreamOrder stream_order() {
  const std::lock_guard lock(device_mutex());
  return device().order;
}

void run_if_early(WorkQueue& pushed) {
  if (device().order != StreamOrder::early || !pushed.ready()) return;
  const DeviceWorks works;
  pushed.run_early();
  const std::vector<std::shared_ptr<WorkQueue>> others = all_but(&pushed);
  const auto run_others = [&others] {
    bool ran = false;
    for (const std::shared_ptr<WorkQueue>& other : others) ran = other->run_early() || ran;
    return ran;
  };
  while (run_others()) pushed.run_early();
}

std::shared_ptr<WorkQueue> branch_queue() { return listed(std::make_shared<WorkQueue>()); }

void enqueue(std::function<void()> work) {
  const std::lock_guard lock(device_mutex());
  current().push({std::move(work), {}});
}

const std::shared_ptr<WorkQueue>& current_queue() { return device::current_stream().queue().work; }

void enqueue_kernel(int grid, int block, std::function<void()> thread) {
  check_launch(grid, block);
  ++device::counted_calls().launches;
  enqueue([grid, block, thread = std::move(thread)] { run(grid, block, thread); });
}

}  // namespace zeroproof::cuda::sim

namespace zeroproof::cuda::device {

std::shared_ptr<Stream::Queue> thread_queue() {
  auto queue = std::make_shared<Stream::Queue>();
  sim::listed(queue->work);
  return queue;
}

bool capturing() { return sim::current_queue()->capture != nullptr; }

Stream::Stream() : Stream(thread_queue()) {}

Stream::Stream(std::shared_ptr<Queue> queue) : queue_(std::move(queue)) {}

Stream::~Stream() {
  drop_kept();
  const std::lock_guard lock(sim::device_mutex());
  if (!queue_->work->passed(queue_->work->end_position()))
    sim::device().left_behind.push_back(queue_->work);
}

void Stream::wait_for(const Event& event) {
  const std::lock_guard lock(sim::device_mutex());
  const sim::Mark& mark = event.mark().at;
  if (!mark.queue) return;
  if (mark.queue == queue_->work && !mark.capture) return;  // ordered anyway, and would own itself
  if (mark.capture) {
    ZP_CHECK(!mark.capture->ended(), ErrorCode::internal,
             "a stream waits for an event of a capture that has ended" + in_named_step(),
             "the graph may have run never or several times",
             "record the event outside the capture");
    if (!queue_->work->capture) mark.capture->join(queue_->work);
  }
  queue_->work->push({nullptr, mark});
}

Event::Event() : mark_(std::make_unique<Mark>()) {}
Event::~Event() = default;
Event::Event(Event&& other) noexcept = default;
Event& Event::operator=(Event&& other) noexcept = default;

void Event::record() {
  const std::lock_guard lock(sim::device_mutex());
  const std::shared_ptr<sim::WorkQueue>& queue = current_stream().queue().work;
  const std::int64_t position =
      queue->capture ? queue->capture->end_position(queue->branch) : queue->end_position();
  mark_->at = {queue, position, queue->capture};
}

bool Event::reached() const {
  const sim::Mark& mark = mark_->at;
  if (!mark.queue) return true;
  if (mark.capture) refuse_in_capture("querying an event");
  if (mark.queue->passed(mark.position)) return true;
  const std::unique_lock lock(sim::device_mutex(), std::try_to_lock);
  if (!lock.owns_lock()) return false;  // another thread waits for the device, which is working
  return sim::make_progress(*mark.queue, mark.position);
}

/// Another host thread may be about to enqueue the work that this stream waits for.
void wait_for_current_stream() {
  constexpr std::chrono::microseconds pause{50};
  constexpr std::chrono::seconds patience{120};
  ++counted_calls().waits;
  const auto end = std::chrono::steady_clock::now() + patience;
  while (true) {
    {
      const std::lock_guard lock(sim::device_mutex());
      sim::WorkQueue& queue = sim::current();
      if (sim::run_until(queue, queue.end_position())) return;
    }
    ZP_CHECK(std::chrono::steady_clock::now() < end, ErrorCode::timeout,
             "a simulated stream has waited for " + std::to_string(patience.count()) + " s" +
                 in_named_step(),
             "no thread enqueues the awaited work; a real device would wait forever",
             "watch waits for other ranks (WatchWaits)");
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace zeroproof::cuda::device
