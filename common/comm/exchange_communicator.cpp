#include "common/comm/exchange_communicator.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

namespace zeroproof {

namespace {

/// The words of a block, which may have any alignment.
template <class Word, class Combine>
void combine_words(Span<const std::byte> block, Span<Word> into, const Combine& combine) {
  for (std::size_t i = 0; i < into.size(); ++i) {
    Word word;
    std::memcpy(&word, block.data() + i * sizeof(Word), sizeof(Word));
    into[i] = combine(into[i], word);
  }
}

void combine(Span<const std::byte> block, IntegerReduce op, Span<std::uint64_t> into) {
  using Word = std::uint64_t;
  switch (op) {
    case IntegerReduce::sum:
      return combine_words(block, into, [](Word a, Word b) { return a + b; });
    case IntegerReduce::max:
      return combine_words(block, into, [](Word a, Word b) { return std::max(a, b); });
    case IntegerReduce::bitwise_or:
      return combine_words(block, into, [](Word a, Word b) { return a | b; });
  }
}

std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

}  // namespace

void copy_block(Span<const std::byte> from, Span<std::byte> to) {
  if (!from.empty() && from.data() != to.data()) std::memcpy(to.data(), from.data(), from.size());
}

void ExchangeCommunicator::require(bool condition, const std::string& problem,
                                   const std::string& why, const std::string& remedy) {
  if (condition) return;
  abort(problem);
  fail(ErrorCode::invalid_argument, problem, why, remedy);
}

void ExchangeCommunicator::run(CollectiveCall call, Span<const Span<const std::byte>> send,
                               Span<const Span<std::byte>> recv) {
  call.send_bytes.reserve(send.size());
  call.recv_bytes.reserve(recv.size());
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

void ExchangeCommunicator::all_gather(Span<const std::byte> mine,
                                      Span<const Span<std::byte>> recv) {
  const std::size_t ranks = index(world_size());
  require(recv.size() == ranks,
          "all_gather got " + std::to_string(recv.size()) + " blocks to receive",
          "there are " + std::to_string(ranks) + " ranks",
          "pass one block per rank, empty where there is nothing");
  CollectiveCall call;
  call.collective = Collective::all_gather;
  const std::vector<Span<const std::byte>> send = to_all(mine);
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
  const std::vector<Span<const std::byte>> send = to_all(std::as_bytes(data));
  CollectiveCall call = call_of(Collective::all_reduce, send,
                                std::vector<std::int64_t>(send.size(), numel(std::as_bytes(data))));
  call.reduce = op;
  std::vector<std::uint64_t> reduced(data.size());  // others read `data` until the end
  exchange_each(std::move(call), send, [&](std::size_t from, Span<const std::byte> block) {
    if (from == 0)
      copy_block(block, std::as_writable_bytes(Span<std::uint64_t>(reduced)));
    else
      combine(block, op, reduced);
  });
  std::copy(reduced.begin(), reduced.end(), data.begin());
}

void ExchangeCommunicator::barrier() {
  const std::size_t ranks = index(world_size());
  run(CollectiveCall{}, std::vector<Span<const std::byte>>(ranks),
      std::vector<Span<std::byte>>(ranks));
}

void ExchangeCommunicator::native_reduce_scatter(Span<const float> send,
                                                 Span<const std::int64_t> counts,
                                                 Span<float> recv) {
  require(counts.size() == index(world_size()),
          "reduce_scatter got " + std::to_string(counts.size()) + " counts",
          "there are " + std::to_string(world_size()) + " ranks", "pass one count per rank");
  std::int64_t total = 0;
  for (const std::int64_t count : counts) {
    require(
        count >= 0 && count <= numel(send) - total,
        "reduce_scatter got counts that do not fit " + std::to_string(send.size()) + " elements",
        "each is 0 or more and their sum is the length of the sent data",
        "pass one count per rank");
    total += count;
  }
  require(
      total == numel(send) && numel(recv) == counts[index(rank())],
      "reduce_scatter got " + std::to_string(send.size()) + " elements to send and " +
          std::to_string(recv.size()) + " to receive",
      "the counts are " + std::to_string(total) + " and " + std::to_string(counts[index(rank())]),
      "make the buffers as long as the counts");
  CollectiveCall call;
  call.collective = Collective::reduce_scatter;
  for (const std::int64_t count : counts) call.send_bytes.push_back(4 * count);
  call.recv_bytes.assign(counts.size(), 4 * numel(recv));
  reduce_scatter(std::move(call), send, counts, recv);
}

void ExchangeCommunicator::reduce_scatter(CollectiveCall call, Span<const float> send,
                                          Span<const std::int64_t> counts, Span<float> recv) {
  std::vector<Span<const std::byte>> parts;
  std::size_t begin = 0;
  for (const std::int64_t count : counts) {
    parts.push_back(std::as_bytes(send.subspan(begin, count)));
    begin += static_cast<std::size_t>(count);
  }
  exchange_each(std::move(call), parts, [&](std::size_t from, Span<const std::byte> part) {
    if (from == 0)
      copy_block(part, std::as_writable_bytes(recv));
    else
      combine_words(part, recv, [](float a, float b) { return a + b; });
  });
}

void ExchangeCommunicator::exchange_each(CollectiveCall call, SendBlocks send,
                                         const TakeBlock& take) {
  std::int64_t num_bytes = 0;
  for (const std::int64_t bytes : call.recv_bytes) num_bytes += bytes;
  std::vector<std::byte> received(num_bytes);
  std::vector<Span<std::byte>> blocks;
  std::size_t begin = 0;
  for (const std::int64_t bytes : call.recv_bytes) {
    blocks.push_back(Span<std::byte>(received).subspan(begin, bytes));
    begin += static_cast<std::size_t>(bytes);
  }
  exchange(std::move(call), send, blocks);
  for (std::size_t from = 0; from < blocks.size(); ++from) take(from, blocks[from]);
}

std::unique_ptr<Communicator> ExchangeCommunicator::split(int colour) {
  require(colour >= 0, "split got colour " + std::to_string(colour),
          "every rank belongs to a group", "use colours of 0 or more");
  const std::array<std::int64_t, 2> mine = {colour, next_ticket()};
  const std::vector<Span<const std::byte>> send =
      to_all(std::as_bytes(Span<const std::int64_t>(mine)));
  std::vector<int> members;
  std::int64_t ticket = 0;
  exchange_each(
      call_of(Collective::split, send, std::vector<std::int64_t>(send.size(), sizeof(mine))), send,
      [&](std::size_t from, Span<const std::byte> block) {
        std::array<std::int64_t, 2> other{};
        std::memcpy(&other, block.data(), sizeof(other));
        if (other[0] == colour) members.push_back(static_cast<int>(from));
        ticket = std::max(ticket, other[1]);
      });
  return make_group(members, ticket);
}

std::unique_ptr<SharedWindow> ExchangeCommunicator::shared_window(std::int64_t num_bytes) {
  require(num_bytes >= 0, "shared_window got " + std::to_string(num_bytes) + " bytes",
          "it is the length of a block", "use 0 or more");
  const std::vector<Span<const std::byte>> send =
      to_all(std::as_bytes(Span<const std::int64_t>(&num_bytes, 1)));
  std::vector<std::int64_t> sizes(send.size());
  exchange_each(call_of(Collective::shared_window, send,
                        std::vector<std::int64_t>(send.size(), sizeof(num_bytes))),
                send, [&](std::size_t from, Span<const std::byte> block) {
                  std::memcpy(&sizes[from], block.data(), sizeof(num_bytes));
                });
  return make_window(sizes);
}

std::vector<Span<const std::byte>> ExchangeCommunicator::to_all(Span<const std::byte> block) const {
  return std::vector<Span<const std::byte>>(index(world_size()), block);
}

CollectiveCall ExchangeCommunicator::call_of(Collective collective, SendBlocks send,
                                             std::vector<std::int64_t> recv_bytes) {
  CollectiveCall call;
  call.collective = collective;
  for (const Span<const std::byte> block : send) call.send_bytes.push_back(numel(block));
  call.recv_bytes = std::move(recv_bytes);
  return call;
}

}  // namespace zeroproof
