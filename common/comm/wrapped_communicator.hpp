#pragma once
// A communicator that passes every call on to another one, for classes that change or watch some.

#include <memory>
#include <string>
#include <utility>

#include "common/comm/communicator.hpp"

namespace zeroproof {

class WrappedCommunicator : public Communicator {
 public:
  /// inner must outlive this object.
  explicit WrappedCommunicator(Communicator& inner) : inner_(inner) {}
  /// Of a group that split() has made.
  explicit WrappedCommunicator(std::unique_ptr<Communicator> group)
      : owned_(std::move(group)), inner_(*owned_) {}

  int rank() const override { return inner_.rank(); }
  int world_size() const override { return inner_.world_size(); }
  std::string name() const override { return inner_.name(); }
  void all_to_all(Span<const Span<const std::byte>> send,
                  Span<const Span<std::byte>> recv) override {
    inner_.all_to_all(send, recv);
  }
  void all_gather(Span<const std::byte> mine, Span<const Span<std::byte>> recv) override {
    inner_.all_gather(mine, recv);
  }
  void broadcast(Span<std::byte> data, int root) override { inner_.broadcast(data, root); }
  void all_reduce(Span<std::uint64_t> data, IntegerReduce op) override {
    inner_.all_reduce(data, op);
  }
  void barrier() override { inner_.barrier(); }
  std::unique_ptr<Communicator> split(int colour) override { return inner_.split(colour); }
  std::unique_ptr<SharedWindow> shared_window(std::int64_t num_bytes) override {
    return inner_.shared_window(num_bytes);
  }
  void native_reduce_scatter(Span<const float> send, Span<const std::int64_t> counts,
                             Span<float> recv) override {
    inner_.native_reduce_scatter(send, counts, recv);
  }
  bool shares_addresses() const override { return inner_.shares_addresses(); }
  void exchange_places(const CollectiveCall& call, Span<const Span<const std::byte>> send,
                       const TakePlace& take) override {
    inner_.exchange_places(call, send, take);
  }
  std::chrono::milliseconds time_limit() const override { return inner_.time_limit(); }
  std::string host_of(int rank) const override { return inner_.host_of(rank); }
  void abort(const std::string& reason) override { inner_.abort(reason); }

 private:
  std::unique_ptr<Communicator> owned_;  // null if the user owns it

 protected:
  Communicator& inner_;
};

}  // namespace zeroproof
