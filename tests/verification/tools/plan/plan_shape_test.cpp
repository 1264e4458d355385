// Inputs of the byte counts: slices by formula, nodes on a stack, micro-batches, and the walk of a
// layered model.

#include <doctest.h>

#include <algorithm>

#include "reference/operations.hpp"
#include "tests/verification/tools/plan/accounting_settings.hpp"
#include "verification/tools/plan/predict/contract_units.hpp"
#include "verification/tools/plan/predict/layered_walk.hpp"
#include "verification/tools/plan/predict/leaf_stacks.hpp"
#include "verification/tools/plan/predict/predicted_step.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

PredictedStep shape_for(int world_size, int rank) {
  PredictedStep shape;
  shape.world_size = world_size;
  shape.rank = rank;
  return shape;
}

/// Expands entries to the buckets they count.
std::vector<BucketShape> listed(const PredictedStep& shape) {
  std::vector<BucketShape> all;
  for (const BucketShape& bucket : shape.buckets) {
    const std::int64_t numel = bucket.range.numel();
    for (std::int64_t i = 0; i < bucket.count; ++i) {
      all.push_back(bucket);
      all.back().range = {bucket.range.begin + i * numel, bucket.range.end + i * numel};
    }
  }
  return all;
}

bool same(const BucketShape& a, const BucketShape& b) {
  return a.range == b.range && a.owned == b.owned && a.owned_by_all == b.owned_by_all &&
         a.owners == b.owners && a.split == b.split && a.split_here == b.split_here &&
         a.others == b.others && a.in_order == b.in_order;
}

bool same(const GatherShape& a, const GatherShape& b) {
  return a.range == b.range && a.owned == b.owned && a.all == b.all && a.split == b.split &&
         a.owners == b.owners;
}

struct Peaks {
  std::int64_t params = 0, grads = 0;
  std::int64_t params_left = 0, grads_left = 0;
  std::vector<std::size_t> gathered, reduced;
};

Peaks walk(const PredictedStep& shape, bool computes = true) {
  Peaks peaks;
  const LayeredEvents events{
      [&](std::int64_t bytes) {
        peaks.params = std::max(peaks.params, peaks.params_left += bytes);
      },
      [&](std::int64_t bytes) { peaks.grads = std::max(peaks.grads, peaks.grads_left += bytes); },
      [&](std::size_t unit) { peaks.gathered.push_back(unit); },
      [&](std::size_t entry) {
        std::size_t end = 0;  // one by one, the last first
        for (std::size_t e = 0; e <= entry; ++e)
          end += static_cast<std::size_t>(shape.buckets[e].count);
        for (std::int64_t i = 0; i < shape.buckets[entry].count; ++i)
          peaks.reduced.push_back(--end);
      }};
  walk_micro_step(shape, computes, events);
  return peaks;
}

/// Units and buckets in chunks of 1024 elements.
PredictedStep layered(const std::vector<std::int64_t>& unit_chunks, std::int64_t bucket_chunks,
                      const std::vector<int>& visits, std::int64_t persistent_numel = 0) {
  PredictedStep shape = shape_for(1, 0);
  shape.stage = 3;
  std::vector<FlatRange> units;
  std::vector<ParamSpec> tensors;
  std::int64_t begin = 0;
  for (const std::int64_t chunks : unit_chunks) {
    units.push_back({begin, begin + 1024 * chunks});
    tensors.push_back({"tensor" + std::to_string(begin), {1024 * chunks - 3}});
    begin += 1024 * chunks;
  }
  set_contract_buckets(shape, begin, 1024 * bucket_chunks);
  set_units({&shape}, FlatLayout(tensors), MapOwnership(ShardMap(begin, 1, 1024 * bucket_chunks)),
            units, visits, persistent_numel);
  return shape;
}

}  // namespace

TEST_CASE("slices of the contract's layout by formula are those of the shard map") {
  for (const std::int64_t chunks : {0, 1, 2, 3, 7, 64, 65}) {
    for (const std::int64_t bucket_chunks : {1, 2, 5, 64, 100}) {
      for (const int world : {1, 2, 3, 8, 13, 70}) {
        const ShardMap shards(1024 * chunks, world, 1024 * bucket_chunks);
        const std::int64_t cut = 1024 * (chunks / 3);
        const FlatLayout layout({{"a", {std::max<std::int64_t>(0, cut - 7)}},
                                 {"none", {0}},
                                 {"b", {std::max<std::int64_t>(0, 1024 * chunks - cut - 1)}}});
        const std::vector<FlatRange> units = {{0, 1024 * (chunks / 3)},
                                              {1024 * (chunks / 3), 1024 * chunks}};
        for (int rank = 0; rank < world; ++rank) {
          PredictedStep by_formula = shape_for(world, rank);
          set_contract_buckets(by_formula, 1024 * chunks, 1024 * bucket_chunks);
          by_formula.stage = 3;
          set_contract_units(by_formula, layout, units, 1024 * bucket_chunks);
          PredictedStep by_map = shape_for(world, rank);
          set_buckets(by_map, shards);
          by_map.stage = 3;
          set_units({&by_map}, layout, MapOwnership(shards), units, {0, 1}, 0);
          REQUIRE(by_formula.shard_numel == by_map.shard_numel);
          const std::vector<BucketShape> buckets = listed(by_formula);
          REQUIRE(buckets.size() == by_map.buckets.size());
          for (std::size_t b = 0; b < by_map.buckets.size(); ++b) {
            REQUIRE(same(buckets[b], by_map.buckets[b]));
            REQUIRE(buckets[b].owned ==
                    contract_slice(by_map.buckets[b].range, world, rank).numel());
          }
          for (std::size_t u = 0; u < 2; ++u) REQUIRE(same(by_formula.units[u], by_map.units[u]));
          REQUIRE(by_formula.visits == by_map.visits);
          REQUIRE(by_formula.units[0].all + by_formula.units[1].all == layout.numel());
        }
      }
    }
  }
}

TEST_CASE("a stretch continues where shard and whole do, with any gap in the numbering") {
  // Chunks 0 and 3 are persistent tensors; of three ranks, rank 0 owns them, one after another in
  // its shard.
  const FlatLayout layout(
      {{"a", {1024}}, {"large", {2048}}, {"b", {1024}}, {"short", {1000}}, {"c", {24}}});
  const ShardMap shards(layout.padded_numel(), 3, 3072);
  PredictedStep shape = shape_for(3, 0);
  shape.stage = 3;
  set_buckets(shape, shards);
  set_units({&shape}, layout, MapOwnership(shards), {{0, layout.padded_numel()}}, {0}, 1024);
  CHECK(shape.persistent.all == 1024 + 1024 + 1000 + 24);
  CHECK(shape.persistent.owned == 2048);
  CHECK(shape.persistent.owners == 3);
  CHECK(shape.persistent.split == PartLengths{});
  CHECK(shape.units[0].all == 2048);
  CHECK(shape.units[0].owners == 2);
}

TEST_CASE(
    "units of the contract's layout by formula: odd tensors, any phase of units and buckets, "
    "uneven ranks") {
  Shuffle rest;
  for (int i = 0; i < 3000; ++i) {
    std::vector<ParamSpec> tensors;
    for (int t = rest.below(12); t >= 0; --t) {
      const std::int64_t numel =
          rest.one_of({0, 1, 1000, 1024, 1500, 2048, 3072, 5000, 9216, 40'960});
      tensors.push_back({"tensor" + std::to_string(t), {numel}});
    }
    const FlatLayout layout(tensors);
    std::vector<FlatRange> units;
    for (const TensorSlot& slot : layout.tensors()) {
      if (!units.empty() && rest.below(2) == 0) continue;
      if (!units.empty()) units.back().end = slot.begin;
      units.push_back({slot.begin, slot.begin});
    }
    units.back().end = layout.padded_numel();
    std::vector<int> visits;
    for (std::size_t u = 0; u < units.size(); ++u) visits.push_back(static_cast<int>(u));
    const int world = rest.one_of({1, 2, 3, 4, 7, 8, 13, 40});
    const std::int64_t bucket_numel = 1024 * rest.one_of({1, 2, 3, 5, 8, 9, 12, 31, 64});
    const ShardMap shards(layout.padded_numel(), world, bucket_numel);
    const MapOwnership ownership(shards);
    CAPTURE(i);
    for (int rank = 0; rank < world; ++rank) {
      PredictedStep by_formula = shape_for(world, rank), by_map = shape_for(world, rank);
      by_formula.stage = by_map.stage = 3;
      set_contract_buckets(by_formula, layout.padded_numel(), bucket_numel);
      set_contract_units(by_formula, layout, units, bucket_numel);
      set_units({&by_map}, layout, ownership, units, visits, 0);
      for (std::size_t u = 0; u < units.size(); ++u)
        REQUIRE(same(by_formula.units[u], by_map.units[u]));
    }
  }
}

TEST_CASE("nodes on a stack: the reference's maximal nodes, and one more while a leaf arrives") {
  for (std::int64_t first = 0; first < 40; ++first) {
    NodeCount stack;
    for (std::int64_t last = first; last <= 40; ++last) {
      const std::vector<TreeNode> nodes = reference::maximal_nodes(first, last);
      REQUIRE(stack.size() == static_cast<std::int64_t>(nodes.size()));
      REQUIRE(nodes_left({first, 1, last - first}) == stack.size());
      REQUIRE(leaves_left({first, 1, last - first}) ==
              std::ranges::count_if(nodes, [](const TreeNode& node) { return node.level == 0; }));
      stack.push(last);
    }
  }
  NodeCount from_zero;
  std::int64_t peak = 0;
  for (std::int64_t m = 1; m <= 64; ++m) {
    peak = std::max(peak, from_zero.size() + 1);
    from_zero.push(m - 1);
    std::int64_t log2 = 0;
    while ((m >> (log2 + 1)) > 0) ++log2;
    CHECK(peak == log2 + 1);  // [ZeRO:nodes], leaves in order from 0
  }
  CHECK(nodes_left({0, 2, 4}) == 4);  // one node of a pair is never combined
  CHECK(leaves_left({0, 2, 4}) == 4);
  CHECK(nodes_left({5, 1, 0}) == 0);
}

TEST_CASE(
    "micro-batches: each is computed once by every CP rank, for any order and number of data "
    "ranks") {
  for (const MicroBatchOrder order :
       {MicroBatchOrder::by_stage, MicroBatchOrder::contiguous, MicroBatchOrder::strided}) {
    for (int stage = 0; stage <= 3; ++stage) {
      for (const int instances : {1, 2}) {
        for (const int cp : {1, 2, 4}) {
          for (const std::int64_t m : {1, 3, 8, 17}) {
            PredictedStep shape = shape_for(8, 0);
            shape.stage = stage;
            shape.instances = instances;
            shape.cp = cp;
            shape.order = order;
            shape.micro_batches = m;
            std::vector<std::int64_t> all;
            for (std::int64_t rank = 0; rank < shape.data_ranks(); ++rank) {
              const MicroBatchIndex mine = micro_batch_index(shape, rank);
              CHECK(mine.step >= 1);
              for (std::int64_t i = 0; i < mine.count; ++i) all.push_back(mine.at(i));
            }
            std::sort(all.begin(), all.end());
            REQUIRE(all.size() == static_cast<std::size_t>(m * cp));
            for (std::size_t i = 0; i < all.size(); ++i)
              CHECK(all[i] == static_cast<std::int64_t>(i));
          }
        }
      }
    }
  }
  PredictedStep shape = shape_for(4, 0);
  shape.micro_batches = 6;
  CHECK(micro_batches_of(shape, 1) ==
        std::vector<std::int64_t>{1, 2});  // floor(6/4) to floor(12/4)
  shape.stage = 2;
  CHECK(micro_batches_of(shape, 1) == std::vector<std::int64_t>{1, 5});
}

TEST_CASE("the walk of a layered model, by hand") {
  constexpr std::int64_t chunk_param = 2048;  // bytes of a chunk in bf16
  constexpr std::int64_t chunk_leaf = 4096;   // and in fp32
  SUBCASE("a bucket per unit") {
    const Peaks peaks = walk(layered({1, 1, 1}, 1, {0, 1, 2}));
    CHECK(peaks.params == chunk_param);
    CHECK(peaks.grads == chunk_leaf);
    CHECK(peaks.gathered ==
          std::vector<std::size_t>{0, 1, 2, 1, 0});  // unit 2 is kept for its backward visit
    CHECK(peaks.reduced == std::vector<std::size_t>{2, 1, 0});
    CHECK(peaks.params_left == 0);
    CHECK(peaks.grads_left == 0);
  }
  SUBCASE("one bucket for all units: it is in memory beside a unit") {
    const Peaks peaks = walk(layered({1, 1, 1}, 3, {0, 1, 2}));
    CHECK(peaks.grads == 4 * chunk_leaf);
    CHECK(peaks.reduced == std::vector<std::size_t>{0});
    CHECK(peaks.grads_left == 0);
  }
  SUBCASE("several buckets in a unit are parts of its gradient") {
    const Peaks peaks = walk(layered({2, 6}, 2, {0, 1}));
    CHECK(peaks.params == 6 * chunk_param);
    CHECK(peaks.grads == 6 * chunk_leaf);
    CHECK(peaks.reduced == std::vector<std::size_t>{3, 2, 1, 0});
  }
  SUBCASE("a bucket in two units") {
    const Peaks peaks = walk(layered({3, 3}, 2, {0, 1}));  // buckets: unit 0, both, unit 1
    CHECK(peaks.grads == 5 * chunk_leaf);                  // a unit, and the bucket of both
    CHECK(peaks.reduced == std::vector<std::size_t>{2, 1, 0});
    CHECK(peaks.grads_left == 0);
  }
  SUBCASE("overlap: the next unit's parameters, and gradients for one visit longer") {
    PredictedStep shape = layered({1, 1, 1, 1}, 1, {0, 1, 2, 3});
    shape.overlap = true;
    const Peaks peaks = walk(shape);
    CHECK(peaks.params == 2 * chunk_param);
    CHECK(peaks.grads == 2 * chunk_leaf);
    CHECK(peaks.gathered == std::vector<std::size_t>{0, 1, 2, 3, 2, 1, 0});
    CHECK(peaks.params_left == 0);
    CHECK(peaks.grads_left == 0);
  }
  SUBCASE("tied parameters: complete after the last backward visit") {
    const Peaks peaks = walk(layered({1, 2}, 3, {0, 1, 0}));
    CHECK(peaks.gathered == std::vector<std::size_t>{0, 1, 0, 1, 0});
    CHECK(peaks.grads == (1 + 2 + 3) * chunk_leaf);  // unit 0 waits while unit 1 fills the bucket
    CHECK(peaks.reduced == std::vector<std::size_t>{0});
    CHECK(peaks.grads_left == 0);
  }
  SUBCASE(
      "stage 2 gathers nothing, a rank without a micro-batch has no gradients, persistent units "
      "stay") {
    PredictedStep shape = layered({1, 1}, 1, {0, 1});
    shape.stage = 2;
    CHECK(walk(shape).params == 0);
    CHECK(walk(shape).gathered.empty());
    shape.stage = 3;
    CHECK(walk(shape, false).grads == 0);
    CHECK(walk(shape, false).params == chunk_param);
    shape = layered({1, 2}, 1, {0, 1}, 1024);
    CHECK(shape.stays == std::vector<bool>{true, false});
    CHECK(shape.persistent.all == 1021);
    CHECK(walk(shape).gathered == std::vector<std::size_t>{1});
  }
}
