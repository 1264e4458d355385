#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cuda/device/sim/work_queue.hpp"

namespace zeroproof::cuda::sim {

/// The captured work of a graph: one branch per stream that takes part. A wait in a branch is for a
/// position in another one.
class Capture {
 public:
  /// Passes exactly one piece of work to a queue. Called without device_mutex().
  using Enqueue = std::function<void(const std::shared_ptr<WorkQueue>& queue)>;

  struct Step {
    std::function<void()> run;
    int branch = -1;  ///< to wait for; -1: none
    std::int64_t position = 0;
    Enqueue enqueue;  ///< replaces all other members; may be empty
  };

  /// Branch 0 belongs to the first stream.
  static std::shared_ptr<Capture> begin(const std::shared_ptr<WorkQueue>& first);

  void push(int branch, QueuedWork work);
  /// Work that differs in every launch: it interacts with that of other streams, which launch their
  /// own graphs.
  void push_at_launch(int branch, Enqueue enqueue);
  std::int64_t end_position(int branch) const {
    return static_cast<std::int64_t>(steps_[index(branch)].size());
  }
  /// A stream that waits for a mark in this capture takes part from then on.
  void join(const std::shared_ptr<WorkQueue>& queue);
  /// Ends the capture: the streams enqueue as before.
  void end();
  /// Whether the first branch waits for the ends of all others.
  bool joined() const;
  bool ended() const { return ended_; }

  /// Enqueues all work on a queue and on new ones, one for every other branch.
  void launch(const std::shared_ptr<WorkQueue>& first) const;

 private:
  static std::size_t index(int branch) { return static_cast<std::size_t>(branch); }
  int branch_of(const WorkQueue* queue) const;

  std::vector<std::shared_ptr<WorkQueue>> queues_;  // [branches]
  std::vector<std::vector<Step>> steps_;            // [branches]
  bool ended_ = false;
};

}  // namespace zeroproof::cuda::sim
