// PieceLoop: its blocks, which of them it joins, and their distribution to threads.

#include "cuda/host/base/piece_loop.hpp"

#include <doctest.h>
#include <omp.h>

#include <mutex>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace piece_loop_test {

namespace {

using namespace zeroproof;
using cuda::host::block_numel;
using cuda::host::PieceLoop;

std::vector<Piece> pieces_of(const std::vector<std::int64_t>& numels,
                             const std::vector<FlatRange>& ranges = {}) {
  std::vector<ParamSpec> params;
  for (const std::int64_t numel : numels)
    params.push_back({"t" + std::to_string(params.size()), {numel}});
  const FlatLayout layout(params);
  return layout.pieces(ranges.empty() ? std::vector<FlatRange>{{0, layout.padded_numel()}}
                                      : ranges);
}

struct Block {
  std::int64_t tensor, global_begin, local_begin, numel;
  bool operator==(const Block&) const = default;
};

template <class CanJoin>
std::vector<Block> joined(const PieceLoop& loop, const CanJoin& can_join) {
  std::vector<Block> blocks;
  loop.run_joined({}, can_join, [&](const Exec& exec, const Piece& piece) {
    CHECK(exec.num_threads == 1);
    blocks.push_back({piece.tensor, piece.global_begin, piece.local_begin, piece.numel});
  });
  return blocks;
}

bool any(const Piece& /*a*/, const Piece& /*b*/) { return true; }

}  // namespace

TEST_CASE("joined: neighbours without padding between them are one block, others are not") {
  const PieceLoop loop(pieces_of({1024, 2048, 1000, 1024, 0, 3072, 5}));
  CHECK(joined(loop, any) == std::vector<Block>{{0, 0, 0, 4072}, {3, 4096, 4096, 4101}});
}

TEST_CASE("joined: only equal neighbours") {
  const PieceLoop loop(pieces_of({1024, 1024, 1024, 1024}));
  const auto can_join = [](const Piece& a, const Piece& b) { return a.tensor / 2 == b.tensor / 2; };
  CHECK(joined(loop, can_join) == std::vector<Block>{{0, 0, 0, 2048}, {2, 2048, 2048, 2048}});
}

TEST_CASE("joined: a block has block_numel elements at most") {
  std::vector<std::int64_t> numels(40, 1024);
  numels.push_back(2 * block_numel + 1024);
  numels.push_back(1024);
  std::int64_t next = 0;
  for (const Block& block : joined(PieceLoop(pieces_of(numels)), any)) {
    CHECK(block.global_begin == next);
    CHECK(block.numel <= block_numel);
    next += block.numel;
  }
  CHECK(next == 42 * 1024 + 2 * block_numel);
  CHECK(joined(PieceLoop(pieces_of(numels)), any).size() == 6);
}

TEST_CASE("joined: neighbours in the shard that are not neighbours in the model, and vice versa") {
  // Elements 1024 to 2048 belong to another rank: the shard closes the gap.
  const PieceLoop gap(pieces_of({1024, 1024, 1024}, {{0, 1024}, {2048, 3072}}));
  CHECK(joined(gap, any) == std::vector<Block>{{0, 0, 0, 1024}, {2, 2048, 1024, 1024}});
  std::vector<Piece> apart = pieces_of({1024, 1024});
  apart[1].local_begin += 64;
  CHECK(joined(PieceLoop(apart), any) ==
        std::vector<Block>{{0, 0, 0, 1024}, {1, 1024, 1088, 1024}});
}

TEST_CASE("a loop that is not joined keeps the tensors apart") {
  std::vector<std::int64_t> numels(100, 1024);
  numels.push_back(block_numel + 1);
  std::vector<std::int64_t> tensors, blocks;
  PieceLoop(pieces_of(numels)).run({}, [&](const Exec&, const Piece& piece) {
    tensors.push_back(piece.tensor);
    blocks.push_back(piece.numel);
  });
  REQUIRE(tensors.size() == 102);
  for (std::int64_t i = 0; i < 101; ++i) CHECK(tensors[i] == i);
  CHECK(blocks[100] == block_numel);
  CHECK(blocks[101] == 1);
}

TEST_CASE("threads share elements, not tensors") {
  // The number of blocks in tiny tensors is that of the large one, which has nearly all the
  // elements.
  std::vector<std::int64_t> numels(256, 1);
  numels.push_back(256 * block_numel);
  const PieceLoop loop(pieces_of(numels));
  std::vector<std::int64_t> done(2, 0);
  std::mutex mutex;
  int workers = 0;
  loop.run(Exec{.num_threads = 2}, [&](const Exec&, const Piece& piece) {
    const std::lock_guard lock(mutex);
    workers = omp_get_num_threads();
    done[omp_get_thread_num()] += piece.numel;
  });
  CHECK(done[0] + done[1] == 256 + 256 * block_numel);
  if (workers == 2) CHECK(std::min(done[0], done[1]) > 100 * block_numel);
}

TEST_CASE("sums: every block in the sum of one worker, every worker's sum once") {
  const PieceLoop loop(pieces_of(std::vector<std::int64_t>(300, 1024)));
  for (const int threads : {1, 2, 3}) {
    std::vector<std::int64_t> sums;
    loop.sum_joined<std::int64_t>(
        Exec{.num_threads = threads}, any,
        [](const Exec&, const Piece& piece, std::int64_t& sum) { sum += piece.numel; },
        [&](std::int64_t sum) { sums.push_back(sum); });
    CHECK(std::ssize(sums) <= threads);
    CHECK(std::accumulate(sums.begin(), sums.end(), std::int64_t{0}) == 300 * 1024);
  }
}

TEST_CASE("an exception of one block is rethrown") {
  const PieceLoop loop(pieces_of(std::vector<std::int64_t>(300, 1000)));
  for (const int threads : {1, 2}) {
    const auto bad = [](const Exec&, const Piece& piece) {
      if (piece.tensor == 299) throw std::runtime_error("bad");
    };
    CHECK_THROWS_AS(loop.run(Exec{.num_threads = threads}, bad), std::runtime_error);
    CHECK_THROWS_AS(loop.run_joined(Exec{.num_threads = threads}, any, bad), std::runtime_error);
  }
}

}  // namespace piece_loop_test
