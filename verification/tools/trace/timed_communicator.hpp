#pragma once
// Reports when every collective began and ended, and the bytes sent to every rank.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/comm/wrapped_communicator.hpp"
#include "verification/tools/trace/clock.hpp"

namespace zeroproof::verification {

/// Groups made by split() are not timed. A message is counted as RecordingCommunicator counts it.
class TimedCommunicator final : public WrappedCommunicator {
 public:
  /// on_call: called with "all_to_all" before such a call, for its TracedSpan::place, and with
  /// "after all_to_all" when it is done.
  TimedCommunicator(std::unique_ptr<Communicator> inner, const TraceClock& clock,
                    std::function<int(const std::string&)> on_call)
      : WrappedCommunicator(std::move(inner)), clock_(clock), on_call_(std::move(on_call)) {}

  /// Of the calls that follow.
  void set_phase(Phase phase) { phase_ = phase; }

  std::vector<TracedSpan> take_spans() { return std::exchange(spans_, {}); }

  void all_to_all(Span<const Span<const std::byte>> send,
                  Span<const Span<std::byte>> recv) override {
    timed("all_to_all", sizes(send), [&] { inner_.all_to_all(send, recv); });
  }
  void all_gather(Span<const std::byte> mine, Span<const Span<std::byte>> recv) override {
    timed("all_gather", to_others(mine.size()), [&] { inner_.all_gather(mine, recv); });
  }
  void broadcast(Span<std::byte> data, int root) override {
    timed("broadcast", to_others(root == rank() ? data.size() : 0),
          [&] { inner_.broadcast(data, root); });
  }
  void all_reduce(Span<std::uint64_t> data, IntegerReduce op) override {
    timed("all_reduce", to_others(data.size() * sizeof(std::uint64_t)),
          [&] { inner_.all_reduce(data, op); });
  }
  void barrier() override {
    timed("barrier", to_others(0), [&] { inner_.barrier(); });
  }
  void native_reduce_scatter(Span<const float> send, Span<const std::int64_t> counts,
                             Span<float> recv) override {
    std::vector<std::int64_t> sent;
    for (const std::int64_t count : counts) sent.push_back(4 * count);
    timed("native_reduce_scatter", std::move(sent),
          [&] { inner_.native_reduce_scatter(send, counts, recv); });
  }
  void exchange_places(const CollectiveCall& call, Span<const Span<const std::byte>> send,
                       const TakePlace& take) override {
    timed("exchange_places", sizes(send), [&] { inner_.exchange_places(call, send, take); });
  }

 private:
  static std::vector<std::int64_t> sizes(Span<const Span<const std::byte>> blocks) {
    std::vector<std::int64_t> bytes;
    for (const Span<const std::byte> block : blocks)
      bytes.push_back(static_cast<std::int64_t>(block.size()));
    return bytes;
  }

  std::vector<std::int64_t> to_others(std::size_t bytes) const {
    return std::vector<std::int64_t>(world_size(), static_cast<std::int64_t>(bytes));
  }

  template <class Call>
  void timed(const std::string& what, std::vector<std::int64_t> sent, const Call& call) {
    sent[rank()] = 0;
    const int place = on_call_(what);
    const std::int64_t begin = clock_.now_ns();
    call();
    spans_.push_back({what, begin, clock_.now_ns(), phase_, std::move(sent), place});
    on_call_("after " + what);
  }

  const TraceClock& clock_;
  std::function<int(const std::string&)> on_call_;
  Phase phase_ = Phase::prepare;
  std::vector<TracedSpan> spans_;
};

}  // namespace zeroproof::verification
