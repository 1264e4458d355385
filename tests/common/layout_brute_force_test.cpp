// R13 by exhaustion: FlatLayout, ShardMap and pieces together, over every small combination of tensor sizes, world
// sizes and bucket sizes. The expected result is counted here, chunk by chunk, from the rule only: tensors in order,
// each in ceil(numel / 1024) chunks, nothing shared, nothing dropped.

#include <doctest.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "common/layout/flat_layout.hpp"
#include "common/layout/shard_map.hpp"

namespace layout_brute_force_test {

using namespace zeroproof;

namespace {

using Sizes = std::vector<std::int64_t>;

/// One chunk of 1024 elements in the global numbering.
struct Chunk {
  std::int64_t tensor;
  std::int64_t first;  ///< element of the tensor it starts with
  std::int64_t real;   ///< elements before the padding, 1..1024
};

std::vector<Chunk> count_chunks(const Sizes& sizes) {
  std::vector<Chunk> chunks;
  for (std::size_t t = 0; t < sizes.size(); ++t) {
    for (std::int64_t left = sizes[t], first = 0; left > 0; left -= 1024, first += 1024) {
      chunks.push_back({static_cast<std::int64_t>(t), first, left < 1024 ? left : 1024});
    }
  }
  return chunks;
}

FlatLayout make_layout(const Sizes& sizes) {
  std::vector<ParamSpec> params;
  for (std::size_t t = 0; t < sizes.size(); ++t)
    params.push_back({"p" + std::to_string(t), {sizes[t]}});
  return FlatLayout(params);
}

/// Counted errors; there are too many cases for one CHECK per element.
struct Wrong {
  std::int64_t numbering = 0;  ///< tensor starts, totals, tensor_at
  std::int64_t cuts = 0;       ///< not at a multiple of 1024, outside, empty, or out of order
  std::int64_t storage = 0;    ///< a chunk with no owner or with several
  std::int64_t elements = 0;   ///< a real element with no piece, or with several
  std::int64_t padding = 0;    ///< padding inside a piece
  std::int64_t mapping = 0;    ///< a piece with another index of an element than the count
  std::int64_t balance = 0;    ///< slices of a bucket that differ by more than 1024
  std::int64_t total() const {
    return numbering + cuts + storage + elements + padding + mapping + balance;
  }
};

void check_numbering(const FlatLayout& layout, const Sizes& sizes, const std::vector<Chunk>& chunks,
                     Wrong& wrong) {
  std::int64_t numel = 0;
  std::int64_t next_chunk = 0;
  for (std::size_t t = 0; t < sizes.size(); ++t) {
    const TensorSlot& slot = layout.tensors()[t];
    wrong.numbering += slot.begin == 1024 * next_chunk && slot.numel == sizes[t] ? 0 : 1;
    for (const Chunk& chunk : chunks)
      next_chunk += chunk.tensor == static_cast<std::int64_t>(t) ? 1 : 0;
    numel += sizes[t];
  }
  wrong.numbering += layout.numel() == numel ? 0 : 1;
  wrong.numbering +=
      layout.padded_numel() == 1024 * static_cast<std::int64_t>(chunks.size()) ? 0 : 1;
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    const auto at = static_cast<std::int64_t>(c) * 1024;
    for (const std::int64_t i :
         {std::int64_t{0}, chunks[c].real - 1, chunks[c].real, std::int64_t{1023}}) {
      const std::int64_t expected = i < chunks[c].real ? chunks[c].tensor : -1;
      if (i < 1024) wrong.numbering += layout.tensor_at(at + i) == expected ? 0 : 1;
    }
  }
}

/// How often every chunk is stored and every chunk is computed on, over all ranks.
struct Visits {
  explicit Visits(std::size_t chunks) : stored(chunks * 1024), computed(chunks * 1024) {}
  std::vector<std::uint8_t> stored, computed;
};

/// One rank: its ranges list the chunks of its buffer, its pieces those used in arithmetic.
void visit_rank(const FlatLayout& layout, const std::vector<FlatRange>& ranges,
                std::int64_t shard_numel, const std::vector<Chunk>& chunks, Visits& visits,
                Wrong& wrong) {
  const auto end = static_cast<std::int64_t>(visits.stored.size());
  std::vector<std::int64_t> global_of_local;
  std::int64_t last_end = -1;
  for (const FlatRange& range : ranges) {
    const bool good = range.begin % 1024 == 0 && range.end % 1024 == 0 && range.begin > last_end &&
                      range.begin < range.end && range.end <= end;
    wrong.cuts += good ? 0 : 1;
    if (!good) return;
    last_end = range.end;
    for (std::int64_t g = range.begin; g < range.end; ++g) {
      ++visits.stored[g];
      global_of_local.push_back(g);
    }
  }
  const auto local_numel = static_cast<std::int64_t>(global_of_local.size());
  wrong.mapping += shard_numel == local_numel ? 0 : 1;
  std::int64_t next_local = 0;  // pieces come in order, so no local element can appear twice
  for (const Piece& piece : layout.pieces(ranges)) {
    const bool good = piece.numel >= 1 && piece.local_begin >= next_local &&
                      piece.local_begin + piece.numel <= local_numel &&
                      piece.tensor_begin % 1024 == 0 && piece.local_begin % 1024 == 0;
    wrong.mapping += good ? 0 : 1;
    if (!good) return;
    next_local = piece.local_begin + piece.numel;
    for (std::int64_t i = 0; i < piece.numel; ++i) {
      const std::int64_t global = global_of_local[piece.local_begin + i];
      const Chunk& chunk = chunks[global / 1024];
      const std::int64_t inside = global % 1024;
      ++visits.computed[global];
      wrong.padding += inside < chunk.real ? 0 : 1;
      wrong.mapping += global == piece.global_begin + i && chunk.tensor == piece.tensor &&
                               chunk.first + inside == piece.tensor_begin + i
                           ? 0
                           : 1;
    }
  }
}

void judge_visits(const Visits& visits, const std::vector<Chunk>& chunks, int times, Wrong& wrong) {
  for (std::size_t g = 0; g < visits.stored.size(); ++g) {
    const bool real = static_cast<std::int64_t>(g % 1024) < chunks[g / 1024].real;
    wrong.storage += visits.stored[g] == times ? 0 : 1;
    if (real) wrong.elements += visits.computed[g] == times ? 0 : 1;
    if (!real) wrong.padding += visits.computed[g] == 0 ? 0 : 1;
  }
}

/// Every bucket is of the requested length (the last one has the rest), and a rank has one slice of it.
void check_buckets(const ShardMap& map, std::int64_t chunks, std::int64_t bucket_chunks,
                   Wrong& wrong) {
  const std::int64_t expected = (chunks + bucket_chunks - 1) / bucket_chunks;
  wrong.cuts += static_cast<std::int64_t>(map.buckets().size()) == expected ? 0 : 1;
  for (std::size_t b = 0; b < map.buckets().size(); ++b) {
    const auto first = static_cast<std::int64_t>(b) * bucket_chunks;
    const std::int64_t length = chunks - first < bucket_chunks ? chunks - first : bucket_chunks;
    const FlatRange& bucket = map.buckets()[b];
    wrong.cuts += bucket.begin == 1024 * first && bucket.end == 1024 * (first + length) ? 0 : 1;
    std::int64_t at = bucket.begin;
    for (int rank = 0; rank < map.world_size(); ++rank) {
      const FlatRange slice = map.slice(b, rank);
      const std::int64_t numel = slice.end - slice.begin;
      wrong.storage += slice.begin == at ? 0 : 1;
      wrong.cuts += numel >= 0 && numel % 1024 == 0 ? 0 : 1;
      // n chunks over W ranks as evenly as whole chunks allow: floor(n / W) or one more
      const std::int64_t least = length / map.world_size();
      wrong.balance +=
          numel / 1024 == least || (numel / 1024 == least + 1 && length % map.world_size() != 0)
              ? 0
              : 1;
      at = slice.end;
    }
    wrong.storage += at == bucket.end ? 0 : 1;
  }
}

Wrong check_case(const FlatLayout& layout, const std::vector<Chunk>& chunks, int world_size,
                 std::int64_t bucket_chunks) {
  Wrong wrong;
  const auto count = static_cast<std::int64_t>(chunks.size());
  const ShardMap map(1024 * count, world_size, 1024 * bucket_chunks);
  check_buckets(map, count, bucket_chunks, wrong);
  Visits visits(chunks.size());  // stages 1 and 2: the shards
  for (int rank = 0; rank < world_size; ++rank) {
    visit_rank(layout, map.shard(rank), map.shard_numel(rank), chunks, visits, wrong);
  }
  judge_visits(visits, chunks, 1, wrong);
  return wrong;
}

/// Stage 0: every rank holds one range with everything.
Wrong check_replicated(const FlatLayout& layout, const std::vector<Chunk>& chunks) {
  Wrong wrong;
  Visits visits(chunks.size());
  const auto all = static_cast<std::int64_t>(visits.stored.size());
  std::vector<FlatRange> ranges;
  if (all > 0) ranges.push_back({0, all});
  visit_rank(layout, ranges, all, chunks, visits, wrong);
  judge_visits(visits, chunks, 1, wrong);
  return wrong;
}

constexpr int worlds[] = {1, 2, 3, 4, 5, 6, 7, 8, 16, 64, 1000};
constexpr std::int64_t bucket_sizes[] = {1, 2, 3, 5, 1000};

std::int64_t check_sizes(const Sizes& sizes) {
  const std::vector<Chunk> chunks = count_chunks(sizes);
  const FlatLayout layout = make_layout(sizes);
  const auto demand = [&](const Wrong& wrong, int world_size, std::int64_t bucket) {
    if (wrong.total() == 0) return;
    std::string text;
    for (const std::int64_t size : sizes) text += " " + std::to_string(size);
    CAPTURE(text);
    CAPTURE(world_size);
    CAPTURE(bucket);
    CHECK(wrong.numbering == 0);
    CHECK(wrong.cuts == 0);
    CHECK(wrong.storage == 0);
    CHECK(wrong.elements == 0);
    CHECK(wrong.padding == 0);
    CHECK(wrong.mapping == 0);
    CHECK(wrong.balance == 0);
    REQUIRE(wrong.total() == 0);  // stops at the first bad case
  };
  Wrong numbering;
  check_numbering(layout, sizes, chunks, numbering);
  demand(numbering, 0, 0);
  demand(check_replicated(layout, chunks), 0, 0);
  std::int64_t cases = 0;
  for (const int world_size : worlds) {
    for (const std::int64_t bucket : bucket_sizes) {
      demand(check_case(layout, chunks, world_size, bucket), world_size, bucket);
      ++cases;
    }
  }
  return cases;
}

/// Calls check_sizes with every list of `count` sizes out of `choices`.
std::int64_t check_every_list(const Sizes& choices, std::size_t count) {
  std::int64_t cases = 0;
  std::vector<std::size_t> digits(count);
  while (true) {
    Sizes sizes;
    for (const std::size_t digit : digits) sizes.push_back(choices[digit]);
    cases += check_sizes(sizes);
    std::size_t place = 0;
    while (place < count && ++digits[place] == choices.size()) digits[place++] = 0;
    if (place == count) return cases;
  }
}

}  // namespace

TEST_CASE("layout by exhaustion: every element has one owner, and both numberings agree") {
  std::int64_t cases = 0;
  for (std::size_t count = 0; count <= 2; ++count) {
    cases += check_every_list({0, 1, 2, 1023, 1024, 1025, 2047, 2048, 2049, 5000}, count);
  }
  cases += check_every_list({0, 1, 1023, 1024, 1025, 3000}, 3);
  cases += check_every_list({0, 1, 1024, 1025}, 4);
  std::printf("layout by exhaustion: %lld combinations of sizes, world and bucket\n",
              static_cast<long long>(cases));
  CHECK(cases > 0);
}

TEST_CASE("slow: layout by exhaustion, longer lists") {
  std::int64_t cases = check_every_list({0, 1, 1023, 1024, 1025, 3000, 7169}, 4);
  cases += check_every_list({0, 1, 1024, 1025}, 5);
  std::printf("layout by exhaustion: %lld combinations of sizes, world and bucket\n",
              static_cast<long long>(cases));
  CHECK(cases > 0);
}

}  // namespace layout_brute_force_test
