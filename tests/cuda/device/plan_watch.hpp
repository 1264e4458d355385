#pragma once
// Plans on the streams of a device whose operations only check for other accesses to their buffers.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "cuda/comm/memory/space_array.hpp"
#include "cuda/device/operations.hpp"
#include "cuda/device/runtime/runtime.hpp"
#include "cuda/optimizer/overlap/stream_executor.hpp"

namespace zeroproof::device_test {

/// Keeps a real device busy longer than it takes to enqueue the rest of a plan: fills that take
/// much longer than their enqueueing. The simulated device needs no time: only the order of the
/// host's waits matters there.
class SlowWork {
 public:
  SlowWork() {
    while (seconds() < 40e-6 && memory_->count() < std::int64_t{1} << 30)
      memory_.emplace(cuda::device_space(), 2 * memory_->count());
    fills_ = 1 + static_cast<int>(5e-3 / seconds());
  }
  /// share: of the whole time, at most 1.
  void enqueue(double share) const {
    for (int i = 0; i < static_cast<int>(share * fills_); ++i) memory_->fill(0);
  }

 private:
  /// Time of one fill.
  double seconds() const {
    memory_->fill(0);
    cuda::device::wait_for_stream();
    const auto begin = std::chrono::steady_clock::now();
    memory_->fill(0);
    cuda::device::wait_for_stream();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  std::optional<cuda::SpaceArray<unsigned char>> memory_{std::in_place, cuda::device_space(),
                                                         std::int64_t{1} << 18};
  int fills_ = 1;
};

/// Number of writes to a buffer before and after an operation.
struct Touch {
  int buffer;
  int before;
  int after;  ///< equal to before: it is only read
};

/// Counts of every operation if they run one after another.
inline std::vector<std::vector<Touch>> touches_of(const cuda::StepPlan& plan) {
  std::map<cuda::PlanBuffer, Touch> now;
  std::vector<std::vector<Touch>> touches;
  for (const cuda::PlanOp& op : plan.ops) {
    std::map<cuda::PlanBuffer, Touch> of_op;
    for (const auto* buffers : {&op.reads, &op.writes}) {
      for (const cuda::PlanBuffer& buffer : *buffers) {
        const Touch& last =
            now.emplace(buffer, Touch{static_cast<int>(now.size()), 0, 0}).first->second;
        of_op[buffer] = {last.buffer, last.after, last.after + (buffers == &op.writes ? 1 : 0)};
      }
    }
    touches.emplace_back();
    for (const auto& [buffer, touch] : of_op) {
      touches.back().push_back(touch);
      now[buffer] = touch;
    }
  }
  return touches;
}

/// Runs a plan in which, instead of real work, an operation reads its buffers, marks those it
/// writes as its own, takes its time, reads again and writes its results. Any two operations on one
/// buffer, one of them writing, that run concurrently or in the wrong order are detected if the
/// first of them is slow enough, or the other stream ahead.
class PlanWatch {
 public:
  /// shares: [ops] of the time of slow work. first: the stream that the host waits for first.
  /// Returns [ops]: whether an operation read other values than in the order of the plan.
  std::vector<bool> disturbed(const cuda::StepPlan& plan, const std::vector<double>& shares,
                              cuda::PlanStream first) {
    const std::vector<std::vector<Touch>> touches = touches_of(plan);
    std::vector<std::size_t> first_reading;  // [ops]; every touch has two
    std::size_t num_touches = 0;
    for (const auto& of_op : touches) {
      first_reading.push_back(2 * num_touches);
      num_touches += of_op.size();
    }
    const Values buffers(num_touches), readings(2 * num_touches);  // more buffers than there are
    buffers.array.fill(0);
    cuda::device::Event comm_ended;
    executor_.run(plan, [&](const cuda::PlanOp& op) {
      const auto i = static_cast<std::size_t>(&op - plan.ops.data());
      const auto reading = [&](std::size_t turn) {
        for (std::size_t t = 0; t < touches[i].size(); ++t)
          clip(buffers.at(touches[i][t].buffer), 1, readings.at(first_reading[i] + 2 * t + turn));
      };
      const auto write = [&](auto&& value) {
        for (const Touch& touch : touches[i])
          if (touch.after != touch.before)
            clip(ones_.at(0), value(touch), buffers.at(touch.buffer));
      };
      reading(0);
      write([&](const Touch&) { return mark(i); });
      slow_.enqueue(shares.at(i));
      reading(1);
      write([](const Touch& touch) { return touch.after; });
      if (op.stream == cuda::PlanStream::comm) comm_ended.record();
    });
    if (first == cuda::PlanStream::comm) cuda::device::wait_for_event(comm_ended);
    const std::vector<float> seen = readings.read();
    std::vector<bool> disturbed(plan.ops.size());
    for (std::size_t i = 0; i < touches.size(); ++i) {
      for (std::size_t t = 0; t < touches[i].size(); ++t) {
        const auto [buffer, before, after] = touches[i][t];
        const std::size_t at = first_reading[i] + 2 * t;
        if (!holds_only(seen, at, before) ||
            !holds_only(seen, at + 1, after == before ? before : mark(i)))
          disturbed[i] = true;
      }
    }
    return disturbed;
  }

 private:
  static constexpr std::size_t numel = 256;  // of a buffer, and of a reading

  struct Values {
    explicit Values(std::size_t count)
        : array(cuda::device_space(), static_cast<std::int64_t>((count + 1) * numel)) {}
    template <class Index>
    Span<float> at(Index index) const {
      return {array.data() + static_cast<std::size_t>(index) * numel, numel};
    }
    std::vector<float> read() const {
      std::vector<float> values(array.count());
      array.read(values);
      return values;
    }
    cuda::SpaceArray<float> array;
  };

  /// While operation i writes.
  static int mark(std::size_t i) { return -1 - static_cast<int>(i); }
  static void clip(Span<const float> from, int factor, Span<float> to) {
    cuda::device::clip({}, static_cast<float>(factor), from, to);
  }
  static bool holds_only(const std::vector<float>& seen, std::size_t reading, int value) {
    for (std::size_t k = reading * numel; k < (reading + 1) * numel; ++k)
      if (seen[k] != static_cast<float>(value)) return false;
    return true;
  }

  SlowWork slow_;
  Values ones_ = [] {
    Values ones(0);
    ones.array.write(std::vector<float>(numel, 1.0F));
    return ones;
  }();
  cuda::StreamExecutor executor_;
};

}  // namespace zeroproof::device_test
