#pragma once
// Cases for communicators with data in device memory. Include doctest.h first.

#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/comm/threads.hpp"
#include "cuda/comm/device_copies.hpp"
#include "tests/cuda/device/device_runtime_support.hpp"

namespace zeroproof::copies_test {

using cuda::device::Event;
using cuda::device::Stream;
using device_test::Bytes;
using device_test::DeviceBytes;
using device_test::on;
using device_test::PinnedBytes;

/// Runs the ranks and the remaining work of their streams.
inline void run_ranks_and_streams(ThreadWorld& world,
                                  const std::function<void(Communicator& control)>& work) {
  run_ranks(world, work);
  cuda::device::wait_for_stream();
}

template <class T>
Span<T> on_device(const DeviceBytes& memory, std::int64_t num_bytes, std::int64_t begin = 0) {
  void* const data = memory.data() + begin;
  return {static_cast<T*>(data), static_cast<std::size_t>(num_bytes) / sizeof(T)};
}

/// A copy of a host block in device memory, at an odd address if it consists of bytes.
template <class T>
class Staged {
 public:
  explicit Staged(Span<const T> host) : memory_(size(host) + begin), num_bytes_(size(host)) {
    device_test::put(memory_.data() + begin, host.data(), num_bytes_);
  }
  Span<T> block() const { return on_device<T>(memory_, num_bytes_, begin); }
  void fetch(Span<T> host) const {
    device_test::get(host.data(), memory_.data() + begin, num_bytes_);
  }

 private:
  static constexpr std::int64_t begin = sizeof(T);
  static std::int64_t size(Span<const T> host) {
    return static_cast<std::int64_t>(host.size_bytes());
  }
  DeviceBytes memory_;
  std::int64_t num_bytes_;
};

/// Passes host blocks through device memory, so that the cases for all other communicators test
/// this one.
class StagedCommunicator final : public Communicator {
 public:
  explicit StagedCommunicator(std::unique_ptr<Communicator> inner) : inner_(std::move(inner)) {}

  int rank() const override { return inner_->rank(); }
  int world_size() const override { return inner_->world_size(); }
  std::string name() const override { return inner_->name(); }
  void barrier() override { inner_->barrier(); }
  void abort(const std::string& reason) override { inner_->abort(reason); }
  std::unique_ptr<Communicator> split(int colour) override {
    return std::make_unique<StagedCommunicator>(inner_->split(colour));
  }

  void all_to_all(Span<const Span<const std::byte>> send,
                  Span<const Span<std::byte>> recv) override {
    std::deque<Staged<std::byte>> out;
    std::vector<Span<const std::byte>> sent;
    for (const Span<const std::byte> block : send)
      sent.emplace_back(out.emplace_back(block).block());
    receive(recv, [&](Span<const Span<std::byte>> blocks) { inner_->all_to_all(sent, blocks); });
  }
  void all_gather(Span<const std::byte> mine, Span<const Span<std::byte>> recv) override {
    const auto own = static_cast<std::size_t>(rank());
    const Staged<std::byte> staged(mine);
    const bool in_place = mine.data() == recv[own].data();
    receive(recv, [&](Span<const Span<std::byte>> blocks) {
      inner_->all_gather(in_place ? blocks[own] : staged.block(), blocks);
    });
  }
  void broadcast(Span<std::byte> data, int root) override {
    const Staged<std::byte> staged(data);
    inner_->broadcast(staged.block(), root);
    staged.fetch(data);
  }
  void all_reduce(Span<std::uint64_t> data, IntegerReduce op) override {
    const Staged<std::uint64_t> staged(data);
    inner_->all_reduce(staged.block(), op);
    staged.fetch(data);
  }
  void native_reduce_scatter(Span<const float> send, Span<const std::int64_t> counts,
                             Span<float> recv) override {
    const Staged<float> out(send), in(recv);
    inner_->native_reduce_scatter(out.block(), counts, in.block());
    in.fetch(recv);
  }

 private:
  template <class Call>
  void receive(Span<const Span<std::byte>> recv, const Call& call) {
    std::deque<Staged<std::byte>> in;
    std::vector<Span<std::byte>> blocks;
    for (const Span<std::byte> block : recv) blocks.push_back(in.emplace_back(block).block());
    call(blocks);
    for (std::size_t from = 0; from < recv.size(); ++from) in[from].fetch(recv[from]);
  }

  std::unique_ptr<Communicator> inner_;
};

/// The blocks of all ranks, one behind the other.
inline std::vector<Span<std::byte>> blocks_of(const DeviceBytes& memory, int ranks,
                                              std::int64_t num_bytes) {
  std::vector<Span<std::byte>> blocks;
  for (int rank = 0; rank < ranks; ++rank)
    blocks.push_back(on_device<std::byte>(memory, num_bytes, rank * num_bytes));
  return blocks;
}

/// Ranks wait for their streams one after the other, from the first or from the last. On the
/// simulated device no work has run before, and then only the order of streams and the events
/// determine the work that runs.
inline void wait_in_turn(Communicator& control, bool from_last,
                         const std::vector<Stream*>& streams) {
  control.barrier();
  for (int turn = 0; turn < control.world_size(); ++turn) {
    if (control.rank() == (from_last ? control.world_size() - 1 - turn : turn)) {
      for (Stream* const stream : streams) on(*stream, [] { cuda::device::wait_for_stream(); });
    }
    control.barrier();
  }
}

inline unsigned char value(int round, int rank) {
  return static_cast<unsigned char>(16 * round + rank + 1);
}

/// Sources are written directly before and after a gather; received data is read directly after it,
/// and its memory is written directly before the next one. Rounds alternate between two streams. No
/// host waits until the end.
///
/// On the simulated device, with awaited_first, the result is wrong
///   without a wait for `ready`   if a reader waits first: it copies data that is not written yet
///   without a wait for `done`    if a sender waits first: it writes again before others have read
///   if senders copied            if a receiver waits first: the data is missing, or arrives after
///                                the fill
inline bool gathers_are_right(Communicator& control, bool from_last, std::int64_t num_bytes) {
  constexpr int rounds = 4;
  constexpr unsigned char wrong = 0xEE;
  const int ranks = control.world_size();
  const auto copies = cuda::make_device_copies(control);
  const DeviceBytes source(num_bytes), received(ranks * num_bytes);
  const PinnedBytes seen(rounds * ranks * num_bytes);
  const std::vector<Span<std::byte>> recv = blocks_of(received, ranks, num_bytes);
  Stream streams[2];
  Event ended;
  Bytes expected;
  for (int round = 0; round < rounds; ++round) {
    Stream& stream = streams[round % 2];
    stream.wait_for(ended);  // a rank orders its own streams' use of its buffers
    on(stream, [&] {
      cuda::device::enqueue_fill(received.data(), wrong, ranks * num_bytes);
      cuda::device::enqueue_fill(source.data(), value(round, control.rank()), num_bytes);
      copies->all_gather(on_device<std::byte>(source, num_bytes), recv);
      cuda::device::enqueue_fill(source.data(), wrong, num_bytes);
      cuda::device::enqueue_to_host(seen.data() + round * ranks * num_bytes, received.data(),
                                    ranks * num_bytes);
      ended.record();
    });
    for (int rank = 0; rank < ranks; ++rank)
      expected.insert(expected.end(), static_cast<std::size_t>(num_bytes), value(round, rank));
  }
  wait_in_turn(control, from_last, {&streams[0], &streams[1]});
  return seen.bytes() == expected;
}

/// Two sums in place on two streams that only the communicator orders, except that on all ranks but
/// the first the second stream begins after the first one.
///
/// Wrong on the simulated device, with awaited_first and the first rank's second stream waited for
/// first, without a wait for the scratch memory of the previous sum: the second sum of rank 0
/// stores its own words there and needs those of the other ranks, for which the first sums run,
/// including that of rank 0, in the same scratch memory. Without a wait for `done` a rank's sum
/// overwrites words that another rank reads.
inline bool sums_are_right(Communicator& control, bool from_last,
                           const std::int64_t (&num_words)[2]) {
  const int ranks = control.world_size();
  const auto copies = cuda::make_device_copies(control);
  Stream first, second;
  Event ended;
  const std::int64_t sizes[2] = {8 * num_words[0], 8 * num_words[1]};
  const DeviceBytes words[2] = {DeviceBytes(sizes[0]), DeviceBytes(sizes[1])};
  const PinnedBytes seen[2] = {PinnedBytes(sizes[0]), PinnedBytes(sizes[1])};
  const auto sum = [&](std::size_t n) {
    cuda::device::enqueue_fill(words[n].data(), value(static_cast<int>(n), control.rank()),
                               sizes[n]);
    copies->all_reduce(on_device<std::uint64_t>(words[n], sizes[n]), IntegerReduce::sum);
    cuda::device::enqueue_to_host(seen[n].data(), words[n].data(), sizes[n]);
  };
  on(first, [&] {
    sum(0);
    ended.record();
  });
  if (control.rank() > 0) second.wait_for(ended);
  on(second, [&] { sum(1); });
  wait_in_turn(control, from_last, {&second, &first});
  bool right = true;
  for (std::size_t n = 0; n < 2; ++n) {
    std::uint64_t expected = 0;
    for (int rank = 0; rank < ranks; ++rank)
      expected += 0x0101010101010101U * value(static_cast<int>(n), rank);
    std::vector<std::uint64_t> got(num_words[n]);
    std::memcpy(got.data(), seen[n].data(), static_cast<std::size_t>(sizes[n]));
    right = right && got == std::vector<std::uint64_t>(got.size(), expected);
  }
  return right;
}

/// A group gathers on one stream, alternating with all ranks on another one, always in the same
/// buffers.
inline bool groups_in_turn_are_right(Communicator& control, bool from_last,
                                     std::int64_t num_bytes) {
  constexpr int rounds = 3;
  const int ranks = control.world_size(), rank = control.rank();
  const auto all = cuda::make_device_copies(control);
  const auto some = all->split(rank % 2);
  const int members = some->world_size();
  const DeviceBytes source(num_bytes), whole(ranks * num_bytes), part(members * num_bytes);
  const PinnedBytes seen(rounds * members * num_bytes);
  const auto next =
      static_cast<std::size_t>((rank + 1) % ranks);  // whose block the group passes on
  Stream wide, narrow;
  Event gathered, passed_on;
  Bytes expected;
  for (int round = 0; round < rounds; ++round) {
    wide.wait_for(passed_on);
    on(wide, [&] {
      cuda::device::enqueue_fill(source.data(), value(round, rank), num_bytes);
      const std::vector<Span<std::byte>> recv = blocks_of(whole, ranks, num_bytes);
      all->all_gather(on_device<std::byte>(source, num_bytes), recv);
      gathered.record();
    });
    narrow.wait_for(gathered);
    on(narrow, [&] {
      const std::vector<Span<std::byte>> recv = blocks_of(part, members, num_bytes);
      some->all_gather(blocks_of(whole, ranks, num_bytes)[next], recv);
      cuda::device::enqueue_to_host(seen.data() + round * members * num_bytes, part.data(),
                                    members * num_bytes);
      passed_on.record();
    });
    for (int member = rank % 2; member < ranks; member += 2)
      expected.insert(expected.end(), static_cast<std::size_t>(num_bytes),
                      value(round, (member + 1) % ranks));
  }
  wait_in_turn(control, from_last, {&narrow, &wide});
  return seen.bytes() == expected;
}

}  // namespace zeroproof::copies_test
