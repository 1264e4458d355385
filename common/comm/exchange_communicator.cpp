#include "common/comm/exchange_communicator.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

namespace zeroproof {

namespace {

void combine(Span<const std::uint64_t> other, IntegerReduce op, Span<std::uint64_t> into) {
  for (std::size_t i = 0; i < into.size(); ++i) {
    switch (op) {
      case IntegerReduce::sum:
        into[i] += other[i];
        break;
      case IntegerReduce::max:
        into[i] = std::max(into[i], other[i]);
        break;
      case IntegerReduce::bitwise_or:
        into[i] |= other[i];
        break;
    }
  }
}

std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

}  // namespace

void copy_block(Span<const std::byte> from, Span<std::byte> to) {
  if (!from.empty() && from.data() != to.data()) std::memcpy(to.data(), from.data(), from.size());
}

void ExchangeCommunicator::require(bool condition, const std::string& problem, const std::string& why,
                                   const std::string& remedy) {
  if (condition) return;
  abort(problem);
  fail(ErrorCode::invalid_argument, problem, why, remedy);
}

void ExchangeCommunicator::run(CollectiveCall call, Span<const Span<const std::byte>> send,
                               Span<const Span<std::byte>> recv) {
  for (const Span<const std::byte> block : send) call.send_bytes.push_back(numel(block));
  for (const Span<std::byte> block : recv) call.recv_bytes.push_back(numel(block));
  exchange(std::move(call), send, recv);
}

void ExchangeCommunicator::all_to_all(Span<const Span<const std::byte>> send,
                                      Span<const Span<std::byte>> recv) {
  const std::size_t ranks = index(world_size());
  require(send.size() == ranks && recv.size() == ranks,
          "all_to_all got " + std::to_string(send.size()) + " blocks to send and " +
              std::to_string(recv.size()) + " to receive",
          "there are " + std::to_string(ranks) + " ranks",
          "pass one block per rank, empty where there is nothing");
  CollectiveCall call;
  call.collective = Collective::all_to_all;
  run(std::move(call), send, recv);
}

void ExchangeCommunicator::all_gather(Span<const std::byte> mine, Span<const Span<std::byte>> recv) {
  const std::size_t ranks = index(world_size());
  require(recv.size() == ranks, "all_gather got " + std::to_string(recv.size()) + " blocks to receive",
          "there are " + std::to_string(ranks) + " ranks",
          "pass one block per rank, empty where there is nothing");
  CollectiveCall call;
  call.collective = Collective::all_gather;
  const std::vector<Span<const std::byte>> send(ranks, mine);
  run(std::move(call), send, recv);
}

void ExchangeCommunicator::broadcast(Span<std::byte> data, int root) {
  require(root >= 0 && root < world_size(), "broadcast got root " + std::to_string(root),
          "there are " + std::to_string(world_size()) + " ranks", "use 0 <= root < world_size");
  CollectiveCall call;
  call.collective = Collective::broadcast;
  call.root = root;
  std::vector<Span<const std::byte>> send(index(world_size()));
  if (rank() == root) std::fill(send.begin(), send.end(), Span<const std::byte>(data));
  std::vector<Span<std::byte>> recv(index(world_size()));
  recv[index(root)] = data;
  run(std::move(call), send, recv);
}

/// Every rank gets every rank's integers and combines them itself: the reduced data are counters, flags and
/// limbs of exact sums, a few hundred bytes.
void ExchangeCommunicator::all_reduce(Span<std::uint64_t> data, IntegerReduce op) {
  CollectiveCall call;
  call.collective = Collective::all_reduce;
  call.reduce = op;
  const std::size_t ranks = index(world_size());
  std::vector<std::uint64_t> gathered(ranks * data.size());
  const Span<std::uint64_t> all(gathered);
  const std::vector<Span<const std::byte>> send(ranks, std::as_bytes(data));
  std::vector<Span<std::byte>> recv;
  for (std::size_t r = 0; r < ranks; ++r) {
    recv.push_back(std::as_writable_bytes(all.subspan(r * data.size(), data.size())));
  }
  run(std::move(call), send, recv);
  std::copy_n(gathered.begin(), data.size(), data.begin());
  for (std::size_t r = 1; r < ranks; ++r) combine(all.subspan(r * data.size(), data.size()), op, data);
}

void ExchangeCommunicator::barrier() {
  const std::size_t ranks = index(world_size());
  run(CollectiveCall{}, std::vector<Span<const std::byte>>(ranks), std::vector<Span<std::byte>>(ranks));
}

}  // namespace zeroproof
