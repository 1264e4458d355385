#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cuda/device/sim/work_queue.hpp"

namespace zeroproof::cuda::sim {

/// What streams are given while a graph is captured: a branch for every stream that takes part. A wait in a branch is
/// for a place in another one.
class Capture {
 public:
  /// Gives a queue exactly one piece of work. Called without device_mutex().
  using Give = std::function<void(const std::shared_ptr<WorkQueue>& queue)>;

  struct Step {
    std::function<void()> run;
    int branch = -1;  ///< to wait for; -1: none
    std::int64_t position = 0;
    Give give;  ///< in place of all that; may be empty
  };

  /// Branch 0 is the first stream's.
  static std::shared_ptr<Capture> begin(const std::shared_ptr<WorkQueue>& first);

  void push(int branch, QueuedWork work);
  /// Work that is another one in every launch: it meets that of other streams, which launch for themselves.
  void push_at_launch(int branch, Give give);
  std::int64_t given(int branch) const {
    return static_cast<std::int64_t>(steps_[index(branch)].size());
  }
  /// A stream that waits for something in here takes part from then on.
  void join(const std::shared_ptr<WorkQueue>& queue);
  /// Streams go on as before.
  void end();
  /// Whether the first branch waits for all others, to their ends.
  bool joined() const;
  bool ended() const { return ended_; }

  /// Gives all of it to a queue and to new ones beside it, one for every other branch.
  void launch(const std::shared_ptr<WorkQueue>& first) const;

 private:
  static std::size_t index(int branch) { return static_cast<std::size_t>(branch); }
  int branch_of(const WorkQueue* queue) const;

  std::vector<std::shared_ptr<WorkQueue>> queues_;  // [branches]
  std::vector<std::vector<Step>> steps_;            // [branches]
  bool ended_ = false;
};

}  // namespace zeroproof::cuda::sim
