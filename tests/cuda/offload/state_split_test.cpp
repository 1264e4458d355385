// StateSplit: every element of a shard is in one place, and the chunks cover every offloaded
// element.

#include "cuda/offload/state_split.hpp"

#include "tests/cuda/optimizer/production_world.hpp"

#include <map>
#include <random>
#include <set>

namespace state_split_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using cuda::StateSplit;

struct Counted {
  std::vector<char> offloaded;       // [shard_numel] 1 if offloaded
  std::vector<std::int64_t> pieces;  // elements of tensors, in local order
};

OptimizerSetup setup_of(double fraction, OffloadOrder order, std::int64_t chunk_numel) {
  OptimizerSetup setup;
  setup.layout = &odd_layout();
  setup.offload.fraction = fraction;
  setup.offload.order = order;
  setup.offload.chunk_numel = chunk_numel;
  return setup;
}

std::int64_t total(const std::vector<FlatRange>& ranges) {
  std::int64_t numel = 0;
  for (const FlatRange& range : ranges) numel += range.numel();
  return numel;
}

/// Tensor numbers of the elements: -1 is padding.
std::vector<std::int64_t> tensors_of(const std::vector<FlatRange>& ranges) {
  std::vector<std::int64_t> all;
  for (const FlatRange& range : ranges) {
    for (std::int64_t i = range.begin; i < range.end; ++i) all.push_back(odd_layout().tensor_at(i));
  }
  return all;
}

/// 1 for the elements of tensors in offloaded stretches; and places are packed, in increasing
/// order.
std::vector<char> offloaded_by_stretches(const StateSplit& split, std::int64_t numel) {
  std::vector<char> out(numel, 2);
  std::int64_t next[2] = {0, 0};
  for (const StateSplit::Stretch& stretch : split.stretches()) {
    CHECK(stretch.place == next[stretch.offloaded]);
    next[stretch.offloaded] += stretch.numel;
    for (std::int64_t i = 0; i < stretch.numel; ++i) {
      char& at = out[stretch.local_begin + i];
      CHECK(at == 2);
      at = stretch.offloaded ? 1 : 0;
      CHECK(split.place(stretch.local_begin + i) == stretch.place + i);
    }
  }
  CHECK(std::ranges::count(out, 2) == 0);
  CHECK(next[0] == split.resident_numel());
  CHECK(next[1] == split.offloaded_numel());
  return out;
}

void check_chunks(const StateSplit& split, const std::vector<char>& out,
                  const std::vector<std::int64_t>& tensors, std::int64_t chunk_numel) {
  std::vector<char> seen(out.size(), 0);
  std::int64_t next = 0;
  for (std::size_t c = 0; c < split.chunks().size(); ++c) {
    const StateSplit::Chunk& chunk = split.chunks()[c];
    CHECK(chunk.number == static_cast<std::int64_t>(c));
    CHECK(chunk.begin == next);
    CHECK((chunk.numel == chunk_numel ||
           (c + 1 == split.chunks().size() && chunk.numel < chunk_numel)));
    next += chunk.numel;
    std::int64_t in_stretches = 0;
    for (const StateSplit::Stretch& stretch : chunk.stretches) {
      in_stretches += stretch.numel;
      CHECK(split.place(stretch.local_begin) == stretch.place);
    }
    CHECK(in_stretches == chunk.numel);
    for (const Piece& piece : chunk.pieces.blocks()) {
      CHECK(split.place(piece.local_begin) >= chunk.begin);
      CHECK(split.place(piece.local_begin) + piece.numel <= chunk.begin + chunk.numel);
      for (std::int64_t i = 0; i < piece.numel; ++i) {
        const auto at = static_cast<std::size_t>(piece.local_begin + i);
        CHECK(tensors[at] == piece.tensor);
        ++seen[at];
      }
    }
  }
  CHECK(next == split.offloaded_numel());
  for (const Piece& piece : split.resident_pieces()) {
    for (std::int64_t i = 0; i < piece.numel; ++i) {
      const auto at = static_cast<std::size_t>(piece.local_begin + i);
      CHECK(out[at] == 0);
      ++seen[at];
    }
  }
  for (std::size_t i = 0; i < seen.size(); ++i) CHECK(seen[i] == (tensors[i] >= 0 ? 1 : 0));
}

}  // namespace

TEST_CASE("state split: every element is in one place, for any ranges, fraction, order and chunk") {
  std::mt19937_64 random(7);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  for (int n = 0; n < 60; ++n) {
    std::vector<FlatRange> ranges;
    for (std::int64_t at = below(3000); at < odd_layout().padded_numel(); at += 1 + below(2500)) {
      const std::int64_t begin = at;
      at = std::min(at + below(4000), odd_layout().padded_numel());
      ranges.push_back({begin, at});
    }
    if (n % 10 == 9) ranges.clear();
    const double fraction = n % 5 == 0 ? 1.0 : static_cast<double>(below(1000)) / 1000;
    const auto order = n % 2 == 0 ? OffloadOrder::flat : OffloadOrder::tensors;
    const std::int64_t chunk_numel = n % 4 == 0 ? 1 + below(7) : 1 + below(5000);
    const StateSplit split(setup_of(fraction, order, chunk_numel), ranges);
    const std::vector<char> out = offloaded_by_stretches(split, total(ranges));
    const std::vector<std::int64_t> tensors = tensors_of(ranges);
    check_chunks(split, out, tensors, chunk_numel);

    std::int64_t all = 0, taken = 0;
    std::vector<std::int64_t> of_tensor(odd_layout().tensors().size(), 0),
        taken_of(of_tensor.size(), 0);
    bool ended = false;
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (tensors[i] < 0) continue;
      ++all;
      ++of_tensor[tensors[i]];
      taken += out[i];
      taken_of[tensors[i]] += out[i];
      if (order == OffloadOrder::flat) CHECK(!(ended && out[i] == 1));
      if (out[i] == 0) ended = true;
    }
    const double wanted = fraction * static_cast<double>(all);
    if (order == OffloadOrder::flat) CHECK(taken == static_cast<std::int64_t>(wanted));
    if (order == OffloadOrder::flat) continue;
    std::int64_t before = 0;
    for (std::size_t t = 0; t < of_tensor.size(); ++t) {
      CHECK(taken_of[t] == (static_cast<double>(before) < wanted ? of_tensor[t] : 0));
      before += taken_of[t];
    }
  }
}

TEST_CASE(
    "state split: where state has scales, no block is split, and each is at a multiple of its "
    "size") {
  std::mt19937_64 random(8);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  for (int n = 0; n < 200; ++n) {
    std::vector<FlatRange> ranges;
    for (std::int64_t at = below(3000); at < odd_layout().padded_numel(); at += 1 + below(2500)) {
      const std::int64_t begin = at;
      at = std::min(at + below(4000), odd_layout().padded_numel());
      ranges.push_back({begin, at});
    }
    const double fraction = n % 5 == 0 ? 1.0 : static_cast<double>(below(1000)) / 1000;
    OptimizerSetup setup =
        setup_of(fraction, n % 2 == 0 ? OffloadOrder::flat : OffloadOrder::tensors,
                 n % 4 == 0 ? 1 : 1 + below(3000));
    const StateSplit without(setup, ranges);
    setup.state_formats.exp_avg_sq = StateFormat::fp16;
    const StateSplit split(setup, ranges);
    CHECK(split.numel() == total(ranges));

    // Of the elements that would be offloaded without scales, those in whole blocks of this rank
    // are offloaded.
    const std::vector<Piece> pieces = odd_layout().pieces(ranges);
    std::map<std::int64_t, std::int64_t> here, wanted;  // elements of a block
    for (const Piece& piece : pieces) {
      for (std::int64_t i = 0; i < piece.numel; ++i)
        ++here[(piece.global_begin + i) / state_block_numel];
    }
    for (const StateSplit::Chunk& chunk : without.chunks()) {
      for (const Piece& piece : chunk.pieces.blocks()) {
        for (std::int64_t i = 0; i < piece.numel; ++i)
          ++wanted[(piece.global_begin + i) / state_block_numel];
      }
    }
    const auto of_tensor = [](std::int64_t block) {
      const std::int64_t begin = block * state_block_numel;
      const std::int64_t tensor = odd_layout().tensor_at(begin);
      const TensorSlot& slot = odd_layout().tensors()[tensor];
      return std::min(state_block_numel, slot.begin + slot.numel - begin);
    };
    std::set<std::int64_t> right, left;
    for (const auto& [block, count] : wanted) {
      if (count == of_tensor(block)) right.insert(block);
    }
    std::int64_t next = 0;
    for (const StateSplit::Chunk& chunk : split.chunks()) {
      CHECK(chunk.begin == next);
      CHECK(chunk.numel % state_block_numel == 0);
      CHECK(chunk.numel <= split.chunks().front().numel);
      next += chunk.numel;
      for (const Piece& piece : chunk.pieces.blocks()) {
        const std::int64_t at = split.place(piece.local_begin) - chunk.begin;
        CHECK(at % state_block_numel == piece.global_begin % state_block_numel);
        CHECK((at >= 0 && at + piece.numel <= chunk.numel));
        for (std::int64_t i = 0; i < piece.numel; ++i)
          left.insert((piece.global_begin + i) / state_block_numel);
        CHECK(piece.global_begin % state_block_numel == 0);
        const TensorSlot& slot = odd_layout().tensors()[piece.tensor];
        const std::int64_t end = piece.tensor_begin + piece.numel;
        CHECK((end % state_block_numel == 0 || end == slot.numel));
      }
    }
    CHECK(next == split.offloaded_numel());
    CHECK(left == right);
    for (const Piece& piece : split.resident_pieces()) {
      for (std::int64_t i = 0; i < piece.numel; ++i)
        --here[(piece.global_begin + i) / state_block_numel];
    }
    for (const auto& [block, count] : here)
      CHECK(count == (left.contains(block) ? of_tensor(block) : 0));
  }
}

TEST_CASE("state split: tensors are taken in the order of param groups") {
  OptimizerSetup setup = setup_of(0.4, OffloadOrder::tensors, 100);
  setup.groups.rules = {{"late", {}, false, 1.0, 1.0, {}, {}}};
  setup.groups.of_tensor = {
      1, 1, 0, 1, 0, 1, 1};  // 'v' of 1,025 elements comes first, then 'a' and 'b', then 'w'
  const StateSplit split(setup, {{0, odd_layout().padded_numel()}});
  std::vector<std::int64_t> taken(7, 0);
  for (const StateSplit::Chunk& chunk : split.chunks()) {
    for (const Piece& piece : chunk.pieces.blocks()) taken[piece.tensor] += piece.numel;
  }
  CHECK(taken ==
        std::vector<std::int64_t>{77, 3, 0, 3050, 1025, 0, 0});  // 0.4 of 6,204 is passed by 'w'
}

TEST_CASE("state split: a fraction that is met exactly adds no further tensor") {
  const FlatLayout halves({{"a", {1024}}, {"b", {512}}, {"c", {512}}});
  OptimizerSetup setup = setup_of(0.5, OffloadOrder::tensors, 100);
  setup.layout = &halves;
  CHECK(StateSplit(setup, {{0, halves.padded_numel()}}).offloaded_numel() == 1024);
  setup.offload.fraction = 0.75;
  CHECK(StateSplit(setup, {{0, halves.padded_numel()}}).offloaded_numel() ==
        2048);  // 'b' with its padding
}

}  // namespace state_split_test
