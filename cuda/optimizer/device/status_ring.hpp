#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "cuda/device/runtime/raw_array.hpp"
#include "cuda/device/runtime/stream.hpp"
#include "cuda/device/step/step_memory.hpp"
#include "cuda/enqueued_optimizer.hpp"

namespace zeroproof::cuda {

/// Records of the last steps, on their way from the device to the host.
class StatusRing {
 public:
  /// Enqueues the copy of a step's record. Waits only if the host is so far ahead that it would go where the last
  /// finished one is.
  void push(const device::StepRecord* record) {
    look();
    if (pushed_ - finished_ == size - 1) {
      device::wait_for_event(done_[at(finished_)]);
      finish();
    }
    device::enqueue_to_host(&records_.data()[at(pushed_)], record, sizeof(device::StepRecord));
    done_[at(pushed_)].record();
    ++pushed_;
  }

  std::int64_t pushed() const { return pushed_; }
  /// A number below most_enqueued that no step under way has: that of the next one.
  std::int64_t slot() const { return pushed_ % size; }

  /// Steps whose records were here at the last look; looks do not wait. Nothing moves in between: whoever counts on
  /// two numbers gets them from one look.
  std::int64_t finished() const { return finished_; }
  void look() {
    while (finished_ < pushed_ && done_[at(finished_)].reached()) finish();
  }

  /// The first step, from 0, that the device stopped in, of those that are finished.
  std::optional<std::int64_t> halted_at() const { return halted_at_; }

  /// Until all are here.
  void wait() {
    if (finished_ == pushed_) return;
    device::wait_for_event(done_[at(pushed_ - 1)]);
    while (finished_ < pushed_) finish();
  }

  /// Of the last finished step; there is one.
  const device::StepRecord& last() const { return records_.data()[at(finished_ - 1)]; }

  /// Of a state that was loaded: no step is under way.
  void clear() {
    wait();
    pushed_ = finished_ = 0;
    halted_at_.reset();
  }

 private:
  static constexpr std::int64_t size = EnqueuedOptimizer::most_enqueued;
  static std::size_t at(std::int64_t step) { return static_cast<std::size_t>(step % size); }

  void finish() {
    if (!halted_at_ && records_.data()[at(finished_)].state.halt != 0) halted_at_ = finished_;
    ++finished_;
  }

  PinnedArray<device::StepRecord> records_{size};
  std::array<device::Event, size> done_;
  std::int64_t pushed_ = 0;
  std::int64_t finished_ = 0;
  std::optional<std::int64_t> halted_at_;
};

}  // namespace zeroproof::cuda
