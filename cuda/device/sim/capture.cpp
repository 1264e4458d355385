#include "cuda/device/sim/capture.hpp"

#include <algorithm>
#include <utility>

#include "common/base/error.hpp"
#include "cuda/device/sim/current.hpp"

namespace zeroproof::cuda::sim {

std::shared_ptr<Capture> Capture::begin(const std::shared_ptr<WorkQueue>& first) {
  auto capture = std::make_shared<Capture>();
  capture->queues_.push_back(first);
  capture->steps_.emplace_back();
  first->capture = capture;
  first->branch = 0;
  return capture;
}

int Capture::branch_of(const WorkQueue* queue) const {
  const auto at = std::ranges::find(queues_, queue, [](const auto& one) { return one.get(); });
  return static_cast<int>(at - queues_.begin());
}

void Capture::push(int branch, QueuedWork work) {
  Step step{std::move(work.run), -1, 0, nullptr};
  if (work.until.queue) {
    ZP_CHECK(work.until.capture.get() == this, ErrorCode::internal,
             "a captured stream waits for an event outside its graph",
             "a repeated launch would wait for past work",
             "record the event inside the capture, or wait before it");
    step.branch = branch_of(work.until.queue.get());
    step.position = work.until.position;
  }
  steps_[index(branch)].push_back(std::move(step));
}

void Capture::push_at_launch(int branch, Enqueue enqueue) {
  steps_[index(branch)].push_back({nullptr, -1, 0, std::move(enqueue)});
}

void Capture::join(const std::shared_ptr<WorkQueue>& queue) {
  queue->capture = queues_.front()->capture;
  queue->branch = static_cast<int>(queues_.size());
  queues_.push_back(queue);
  steps_.emplace_back();
}

void Capture::end() {
  for (const std::shared_ptr<WorkQueue>& queue : queues_) queue->capture.reset();
  ended_ = true;
}

bool Capture::joined() const {
  std::vector<std::int64_t> seen(steps_.size(), 0);  // [branches] waits of the first branch
  seen[0] = end_position(0);
  for (bool more = true; more;) {
    more = false;
    for (std::size_t b = 0; b < steps_.size(); ++b) {
      for (std::int64_t i = 0; i < seen[b]; ++i) {
        const Step& step = steps_[b][i];
        if (step.branch < 0 || seen[index(step.branch)] >= step.position) continue;
        seen[index(step.branch)] = step.position;
        more = true;
      }
    }
  }
  for (std::size_t b = 0; b < steps_.size(); ++b) {
    if (seen[b] < end_position(static_cast<int>(b))) return false;
  }
  return true;
}

void Capture::launch(const std::shared_ptr<WorkQueue>& first) const {
  std::vector<std::shared_ptr<WorkQueue>> queues = {first};
  while (queues.size() < steps_.size()) queues.push_back(branch_queue());
  std::vector<std::int64_t> begins(queues.size(), 0);
  {
    const std::lock_guard lock(device_mutex());
    begins[0] = first->end_position();
  }
  for (std::size_t b = 0; b < steps_.size(); ++b) {
    for (const Step& step : steps_[b]) {
      if (step.enqueue) {
        step.enqueue(queues[b]);
        continue;
      }
      Mark until;  // the same branch is ordered anyway, and a queue must not own itself
      if (step.branch >= 0 && index(step.branch) != b)
        until = {queues[index(step.branch)], begins[index(step.branch)] + step.position, nullptr};
      const std::lock_guard lock(device_mutex());
      queues[b]->push({step.run, std::move(until)});
    }
  }
}

}  // namespace zeroproof::cuda::sim
