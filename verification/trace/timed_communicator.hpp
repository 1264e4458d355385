#pragma once
// Says when every collective began and ended.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/comm/communicator.hpp"
#include "verification/trace/clock.hpp"

namespace zeroproof::verification {

/// Passes every call on. Groups made by split() are not timed.
class TimedCommunicator final : public Communicator {
 public:
  TimedCommunicator(std::unique_ptr<Communicator> inner, const TraceClock& clock)
      : inner_(std::move(inner)), clock_(clock) {}

  std::vector<TracedSpan> take_spans() { return std::exchange(spans_, {}); }

  int rank() const override { return inner_->rank(); }
  int world_size() const override { return inner_->world_size(); }
  std::string name() const override { return inner_->name(); }
  void all_to_all(Span<const Span<const std::byte>> send, Span<const Span<std::byte>> recv) override {
    timed("all_to_all", [&] { inner_->all_to_all(send, recv); });
  }
  void all_gather(Span<const std::byte> mine, Span<const Span<std::byte>> recv) override {
    timed("all_gather", [&] { inner_->all_gather(mine, recv); });
  }
  void broadcast(Span<std::byte> data, int root) override {
    timed("broadcast", [&] { inner_->broadcast(data, root); });
  }
  void all_reduce(Span<std::uint64_t> data, IntegerReduce op) override {
    timed("all_reduce", [&] { inner_->all_reduce(data, op); });
  }
  void barrier() override {
    timed("barrier", [&] { inner_->barrier(); });
  }
  std::unique_ptr<Communicator> split(int colour) override { return inner_->split(colour); }
  std::unique_ptr<SharedWindow> shared_window(std::int64_t num_bytes) override {
    return inner_->shared_window(num_bytes);
  }
  void native_reduce_scatter(Span<const float> send, Span<const std::int64_t> counts,
                             Span<float> recv) override {
    timed("native_reduce_scatter", [&] { inner_->native_reduce_scatter(send, counts, recv); });
  }
  bool shares_addresses() const override { return inner_->shares_addresses(); }
  void exchange_places(const CollectiveCall& call, Span<const Span<const std::byte>> send,
                       const TakePlace& take) override {
    timed("exchange_places", [&] { inner_->exchange_places(call, send, take); });
  }
  std::chrono::milliseconds time_limit() const override { return inner_->time_limit(); }
  std::string host_of(int rank) const override { return inner_->host_of(rank); }
  void abort(const std::string& reason) override { inner_->abort(reason); }

 private:
  template <class Call>
  void timed(const char* what, const Call& call) {
    const std::int64_t begin = clock_.now_ns();
    call();
    spans_.push_back({what, begin, clock_.now_ns()});
  }

  std::unique_ptr<Communicator> inner_;
  const TraceClock& clock_;
  std::vector<TracedSpan> spans_;
};

}  // namespace zeroproof::verification
