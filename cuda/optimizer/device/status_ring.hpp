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

/// Records of the last steps, copied from the device to the host.
class StatusRing {
 public:
  /// Enqueues the copy of a step's record. Waits only if the host is so far ahead that it would
  /// overwrite the record of the last finished step.
  void push(const device::StepRecord* record) {
    poll();
    if (pushed_ - finished_ == size - 1) {
      device::wait_for_event(done_[at(finished_)]);
      finish();
    }
    device::enqueue_to_host(&records_.data()[at(pushed_)], record, sizeof(device::StepRecord));
    done_[at(pushed_)].record();
    ++pushed_;
  }

  std::int64_t pushed() const { return pushed_; }
  /// Slot of the next step: a number below most_enqueued that no running step has.
  std::int64_t slot() const { return pushed_ % size; }

  /// Number of steps whose records had arrived at the last poll; polls do not wait. Constant in
  /// between: callers that need two consistent numbers get them from one poll.
  std::int64_t finished() const { return finished_; }
  void poll() {
    while (finished_ < pushed_ && done_[at(finished_)].reached()) finish();
  }

  /// The first finished step, from 0, that the device stopped.
  std::optional<std::int64_t> halted_at() const { return halted_at_; }

  /// Waits until all have arrived.
  void wait() {
    if (finished_ == pushed_) return;
    device::wait_for_event(done_[at(pushed_ - 1)]);
    while (finished_ < pushed_) finish();
  }

  /// Of the last finished step, which must exist.
  const device::StepRecord& last() const { return records_.data()[at(finished_ - 1)]; }

  /// After a state was loaded: no step is running.
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
