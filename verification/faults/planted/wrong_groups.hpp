#pragma once
// Groups of ranks in which data is lost.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "common/comm/wrapped_communicator.hpp"

namespace zeroproof::verification {

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
