#pragma once
// Groups of ranks in which data is lost.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "common/comm/communicator.hpp"

namespace zeroproof::verification {

/// Forwards every call.
class WrappedCommunicator : public Communicator {
 public:
  explicit WrappedCommunicator(Communicator& inner) : inner_(inner) {}

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
  std::chrono::milliseconds time_limit() const override { return inner_.time_limit(); }
  std::string host_of(int rank) const override { return inner_.host_of(rank); }
  void abort(const std::string& reason) override { inner_.abort(reason); }

 protected:
  Communicator& inner_;
};

/// Largest words are not reduced: every rank uses its own.
class OwnMaxima final : public WrappedCommunicator {
 public:
  using WrappedCommunicator::WrappedCommunicator;

  void all_reduce(Span<std::uint64_t> data, IntegerReduce op) override {
    if (op != IntegerReduce::max) inner_.all_reduce(data, op);
  }
};

/// Reductions of one operation over that many words do not take place: every rank uses its own
/// values.
class OwnWords final : public WrappedCommunicator {
 public:
  OwnWords(Communicator& inner, IntegerReduce op, std::size_t words)
      : WrappedCommunicator(inner), op_(op), words_(words) {}

  void all_reduce(Span<std::uint64_t> data, IntegerReduce op) override {
    if (op != op_ || data.size() != words_) inner_.all_reduce(data, op);
  }

 private:
  const IntegerReduce op_;
  const std::size_t words_;
};

}  // namespace zeroproof::verification
