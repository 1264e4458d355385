// Many moves as one batch: the moved bytes and the host calls. Runs on the simulated device too.

#include <doctest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "cuda/comm/memory/memory_space.hpp"
#include "cuda/comm/memory/move_tables.hpp"
#include "tests/cuda/device/device_runtime_support.hpp"
#include "tests/cuda/optimizer/device_layouts.hpp"

namespace move_tables_test {

using namespace zeroproof;
using namespace zeroproof::cuda;
using namespace zeroproof::cuda::device;
using namespace zeroproof::device_test;

namespace {

constexpr std::int64_t few = static_cast<std::int64_t>(MoveTables::few_moves);

/// Moves of odd sizes from one buffer to another, in reversed order, with gaps; returns the
/// target's content.
class Batch {
 public:
  Batch(std::int64_t count, std::int64_t longest, int seed)
      : count_(count), longest_(longest), from_(bytes()), to_(bytes()) {
    send(seed);
    fill();
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t size = size_of(i);
      moves_.push_back({to_.data() + (count - 1 - i) * pitch() + i % 13,
                        from_.data() + i * pitch() + i % 7, size});
    }
  }

  void send(int seed) {
    sent_ = numbered(bytes(), seed);
    put(from_.data(), sent_.data(), bytes());
  }
  void fill() { enqueue_fill(to_.data(), 0x5A, bytes()); }
  Span<const Move> moves() const { return moves_; }

  Bytes expected() const {
    Bytes all(static_cast<std::size_t>(bytes()), 0x5A);
    for (std::int64_t i = 0; i < count_; ++i) {
      if (size_of(i) > 0)
        std::memcpy(all.data() + (count_ - 1 - i) * pitch() + i % 13,
                    sent_.data() + i * pitch() + i % 7, static_cast<std::size_t>(size_of(i)));
    }
    return all;
  }
  bool arrived() const { return to_.bytes() == expected(); }

 private:
  std::int64_t pitch() const { return longest_ + 16; }
  std::int64_t bytes() const { return count_ * pitch(); }
  /// 0, 1, ... and one that is much longer than its neighbours.
  std::int64_t size_of(std::int64_t i) const {
    return i == count_ / 2 ? longest_ : i * 37 % (longest_ / 2 + 1);
  }

  std::int64_t count_;
  std::int64_t longest_;
  DeviceBytes from_, to_;
  Bytes sent_;
  std::vector<Move> moves_;
};

struct Calls {
  DeviceCalls before = device_calls();
  std::int64_t launches() const { return device_calls().launches - before.launches; }
  std::int64_t copies() const { return device_calls().copies - before.copies; }
  std::int64_t allocations() const { return device_calls().allocations - before.allocations; }
  std::int64_t waits() const { return device_calls().waits - before.waits; }
};

void copy_many(const Batch& batch) { device_space().copy_many(batch.moves()); }

}  // namespace

TEST_CASE("device: many moves of every length and alignment arrive") {
  if (!usable()) return;
  for (const std::int64_t count : {1, 2, 3, 4, 5, 31, 257, 700}) {
    for (const std::int64_t longest : {1, 40, 5000}) {
      CAPTURE(count);
      CAPTURE(longest);
      Stream stream;
      const UseStream inside(stream);
      const Batch batch(count, longest, static_cast<int>(count));
      copy_many(batch);
      CHECK(batch.arrived());
    }
  }
  const Batch long_one(5, (1 << 20) + 3, 9);  // shared by many blocks of a GPU
  copy_many(long_one);
  CHECK(long_one.arrived());
  device_space().copy_many({});
}

TEST_CASE(
    "device: source and target at every pair of offsets, around a word, a block of threads and a "
    "piece") {
  if (!usable()) return;
  constexpr std::int64_t piece = batched_copy_piece_bytes, gap = 32;
  Stream stream;
  const UseStream inside(stream);
  for (const std::int64_t size :
       {std::int64_t{1}, std::int64_t{15}, std::int64_t{16}, std::int64_t{17}, std::int64_t{1027},
        std::int64_t{4113}, piece - 1, piece + 1, 2 * piece + 5}) {
    CAPTURE(size);
    const std::int64_t pitch = (size + 15) / 16 * 16 + 2 * gap, bytes = 256 * pitch;
    const DeviceBytes from(bytes), to(bytes);
    const Bytes sent = numbered(bytes, static_cast<int>(size % 100));
    put(from.data(), sent.data(), bytes);
    enqueue_fill(to.data(), 0x5A, bytes);
    Bytes expected(static_cast<std::size_t>(bytes), 0x5A);
    std::vector<Move> moves;
    for (std::int64_t i = 0; i < 256; ++i) {
      const std::int64_t source = i * pitch + i % 16, target = i * pitch + i / 16;
      moves.push_back({to.data() + target, from.data() + source, size});
      std::memcpy(expected.data() + target, sent.data() + source, static_cast<std::size_t>(size));
    }
    device_space().copy_many(moves);
    CHECK(to.bytes() == expected);
  }
}

TEST_CASE("device: repeated moves are one launch without allocation, transfer or wait") {
  if (!usable()) return;
  Stream stream;
  const UseStream inside(stream);
  Batch batch(300, 100, 1), other(20, 9, 2);
  copy_many(batch);
  copy_many(other);
  for (int round = 0; round < 4; ++round) {
    CAPTURE(round);
    batch.send(round);
    batch.fill();
    const Calls calls;
    copy_many(batch);
    CHECK(calls.launches() == 1);
    CHECK(calls.copies() == 0);
    CHECK(calls.allocations() == 0);
    CHECK(calls.waits() == 0);
    CHECK(batch.arrived());
  }
  CHECK(other.arrived());
}

TEST_CASE("device: few moves are copies, and empty moves are dropped") {
  if (!usable()) return;
  const Batch batch(few + 1, 64, 3);
  std::vector<Move> moves(batch.moves().begin(), batch.moves().end());
  REQUIRE(moves[0].num_bytes == 0);
  const Calls calls;
  device_space().copy_many(moves);
  CHECK(calls.launches() == 0);
  CHECK(calls.copies() == few);
  CHECK(calls.allocations() == 0);
  CHECK(batch.arrived());
}

TEST_CASE("device: new moves in every call never wait") {
  if (!usable()) return;
  Stream stream;
  const UseStream inside(stream);
  const Batch batch(200, 30, 4);
  const Calls calls;
  for (std::size_t left_out = 0; left_out < 40; ++left_out) {
    std::vector<Move> moves(batch.moves().begin(), batch.moves().end());
    moves.erase(moves.begin() + static_cast<std::ptrdiff_t>(left_out));
    device_space().copy_many(moves);
  }
  CHECK(calls.waits() == 0);
  CHECK(batch.arrived());
}

TEST_CASE("device: tables are dropped at their limit, and made again") {
  if (!usable()) return;
  Stream stream;
  const UseStream inside(stream);
  constexpr std::int64_t count = 40;
  std::vector<std::unique_ptr<Batch>> batches;
  for (int i = 0; i < 4; ++i) batches.push_back(std::make_unique<Batch>(count, 30, i));
  const std::int64_t of_one = count * static_cast<std::int64_t>(sizeof(Move));
  MoveTables tables(2 * of_one);  // of two batches
  for (int turn = 0; turn < 2; ++turn) {
    for (const auto& batch : batches) {
      batch->send(turn);
      batch->fill();
      tables.enqueue(batch->moves());
      CHECK(tables.kept_bytes() <= 2 * of_one);
    }
    for (const auto& batch : batches) CHECK(batch->arrived());
  }
  const Calls dropped;
  tables.enqueue(batches.front()->moves());
  CHECK(dropped.allocations() == 1);
  const Calls kept;
  tables.enqueue(batches.front()->moves());
  CHECK(kept.launches() == 1);
  CHECK(kept.allocations() == 0);
}

TEST_CASE("device: a graph owns the table of its moves") {
  if (!usable()) return;
  Stream stream;
  const UseStream inside(stream);
  Batch known(50, 33, 5);
  copy_many(known);
  const Batch first_seen(9, 15, 7);
  {
    const Calls calls;
    const Graph graph([&] {
      copy_many(known);
      copy_many(first_seen);
    });
    CHECK(calls.allocations() == 0);
    CHECK(calls.waits() == 0);
    CHECK(calls.launches() == 1);
    for (int round = 0; round < 3; ++round) {
      CAPTURE(round);
      known.send(20 + round);
      known.fill();
      graph.launch();
      CHECK(known.arrived());
      known.fill();
      copy_many(known);  // outside the graph: with a separate table
      CHECK(known.arrived());
    }
    CHECK(first_seen.arrived());
  }
  known.send(30);
  known.fill();
  copy_many(known);
  CHECK(known.arrived());
}

}  // namespace move_tables_test
