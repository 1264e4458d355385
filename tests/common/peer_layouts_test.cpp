#include "common/layout/peer_layouts.hpp"

#include <doctest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "common/base/error.hpp"
#include "common/layout/peer_buffers.hpp"
#include "common/step/policy.hpp"

namespace peer_layouts_test {

using namespace zeroproof;

namespace {

using Slices = std::vector<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>>;
using Ranges = std::vector<FlatRange>;

constexpr LayoutKind all_kinds[] = {LayoutKind::contract,       LayoutKind::megatron,
                                    LayoutKind::deepspeed_flat, LayoutKind::deepspeed_param,
                                    LayoutKind::fsdp2,          LayoutKind::greedy};

/// 15, 7, 1, 0 and 100 elements at 0, 1024, 2048, 3072 and 3072 of 4096.
FlatLayout small() {
  return FlatLayout({{"a", {3, 5}}, {"b", {7}}, {"c", {}}, {"d", {0}}, {"e", {2, 50}}});
}

Slices slices(LayoutKind kind, const FlatLayout& layout, int world, std::int64_t bucket_numel,
              int rank) {
  Slices result;
  for (const PeerSlice& s : peer_slices(kind, layout, world, bucket_numel, rank)) {
    result.emplace_back(s.buffer, s.buffer_begin, s.buffer_end, s.numel);
  }
  return result;
}

Ranges shard(LayoutKind kind, const FlatLayout& layout, int world, std::int64_t bucket_numel,
             int rank) {
  return make_shard_map(kind, layout, world, bucket_numel).shard(rank);
}

bool refused(const std::function<void()>& call, const std::string& part) {
  try {
    call();
  } catch (const Error& error) {
    return error.code() == ErrorCode::invalid_argument &&
           std::string(error.what()).find(part) != std::string::npos;
  }
  return false;
}

}  // namespace

// e fills the first bucket of 128; then d, c, b and a are at 0, 0, 64 and 128 of the second, which ends at
// 256.
TEST_CASE("peer_layouts: megatron by hand") {
  const FlatLayout layout = small();
  CHECK(slices(LayoutKind::megatron, layout, 2, 100, 0) == Slices{{0, 0, 64, 64}, {1, 0, 128, 8}});
  CHECK(slices(LayoutKind::megatron, layout, 2, 100, 1) ==
        Slices{{0, 64, 128, 36}, {1, 128, 256, 15}});
  CHECK(shard(LayoutKind::megatron, layout, 2, 100, 0) ==
        Ranges{{1024, 1031}, {2048, 2049}, {3072, 3136}});
  CHECK(shard(LayoutKind::megatron, layout, 2, 100, 1) == Ranges{{0, 15}, {3136, 3172}});
  const ShardMap map = make_shard_map(LayoutKind::megatron, layout, 2, 100);
  CHECK(map.buckets() == Ranges{{0, 3072}, {3072, 4096}});
  CHECK_FALSE(map.aligned());
  // One bucket: e 0-100, d 128, c 128-129, b 192-199, a 256-271, padded to lcm(3, 128) = 384, 128 for each
  // rank.
  CHECK(slices(LayoutKind::megatron, layout, 3, 1000, 0) == Slices{{0, 0, 128, 100}});
  CHECK(slices(LayoutKind::megatron, layout, 3, 1000, 1) == Slices{{0, 128, 256, 8}});
  CHECK(slices(LayoutKind::megatron, layout, 3, 1000, 2) == Slices{{0, 256, 384, 15}});
  // A bucket counts the gaps: with b in it the second one has reached 70 at 71, so a has one of its own.
  CHECK(slices(LayoutKind::megatron, layout, 1, 70, 0) ==
        Slices{{0, 0, 128, 100}, {1, 0, 128, 8}, {2, 0, 128, 15}});
  CHECK(make_shard_map(LayoutKind::megatron, layout, 1, 70).buckets() ==
        Ranges{{0, 1024}, {1024, 3072}, {3072, 4096}});
}

TEST_CASE("peer_layouts: DeepSpeed by hand") {
  const FlatLayout layout = small();
  // 123 elements padded to 124, a multiple of 4.
  CHECK(slices(LayoutKind::deepspeed_flat, layout, 2, 1, 0) == Slices{{0, 0, 62, 62}});
  CHECK(slices(LayoutKind::deepspeed_flat, layout, 2, 1, 1) == Slices{{0, 62, 124, 61}});
  CHECK(shard(LayoutKind::deepspeed_flat, layout, 2, 1, 0) ==
        Ranges{{0, 15}, {1024, 1031}, {2048, 2049}, {3072, 3111}});
  CHECK(shard(LayoutKind::deepspeed_flat, layout, 2, 1, 1) == Ranges{{3111, 3172}});
  // To 126, a multiple of 6: the last rank has three elements of padding.
  CHECK(slices(LayoutKind::deepspeed_flat, layout, 3, 1, 2) == Slices{{0, 84, 126, 39}});
  CHECK(slices(LayoutKind::deepspeed_param, layout, 2, 1, 0) ==
        Slices{{0, 0, 8, 8}, {1, 0, 4, 4}, {2, 0, 1, 1}, {3, 0, 0, 0}, {4, 0, 50, 50}});
  CHECK(slices(LayoutKind::deepspeed_param, layout, 2, 1, 1) ==
        Slices{{0, 8, 16, 7}, {1, 4, 8, 3}, {2, 1, 2, 0}, {3, 0, 0, 0}, {4, 50, 100, 50}});
  CHECK(shard(LayoutKind::deepspeed_param, layout, 2, 1, 1) ==
        Ranges{{8, 15}, {1028, 1031}, {3122, 3172}});
}

TEST_CASE("peer_layouts: FSDP2 by hand") {
  const FlatLayout layout = small();
  CHECK(slices(LayoutKind::fsdp2, layout, 2, 1, 0) ==
        Slices{{0, 0, 10, 10}, {1, 0, 4, 4}, {2, 0, 1, 1}, {3, 0, 0, 0}, {4, 0, 50, 50}});
  CHECK(slices(LayoutKind::fsdp2, layout, 2, 1, 1) ==
        Slices{{0, 10, 20, 5}, {1, 4, 8, 3}, {2, 1, 2, 0}, {3, 0, 0, 0}, {4, 50, 100, 50}});
  CHECK(slices(LayoutKind::fsdp2, layout, 4, 1, 3) ==
        Slices{{0, 15, 20, 0}, {1, 6, 8, 1}, {2, 3, 4, 0}, {3, 0, 0, 0}, {4, 150, 200, 0}});
  // ceil(6 / 4) = 2 rows each: three ranks have two, and the last one none, although 6 > 4.
  const FlatLayout six({{"w", {6, 2}}});
  CHECK(shard(LayoutKind::fsdp2, six, 4, 1, 0) == Ranges{{0, 4}});
  CHECK(shard(LayoutKind::fsdp2, six, 4, 1, 2) == Ranges{{8, 12}});
  CHECK(shard(LayoutKind::fsdp2, six, 4, 1, 3).empty());
}

TEST_CASE("peer_layouts: greedy by hand") {
  const FlatLayout layout = small();
  CHECK(slices(LayoutKind::greedy, layout, 2, 1, 0) == Slices{{4, 0, 100, 100}});
  CHECK(slices(LayoutKind::greedy, layout, 2, 1, 1) ==
        Slices{{0, 0, 15, 15}, {1, 0, 7, 7}, {2, 0, 1, 1}, {3, 0, 0, 0}});
  CHECK(slices(LayoutKind::greedy, layout, 3, 1, 2) ==
        Slices{{1, 0, 7, 7}, {2, 0, 1, 1}, {3, 0, 0, 0}});
  // Equal sizes keep their order, and equal loads are filled from rank 0.
  const FlatLayout even({{"a", {4}}, {"b", {2, 2}}, {"c", {4}}, {"d", {4}}, {"e", {8}}});
  CHECK(slices(LayoutKind::greedy, even, 3, 1, 0) == Slices{{4, 0, 8, 8}});
  CHECK(slices(LayoutKind::greedy, even, 3, 1, 1) == Slices{{0, 0, 4, 4}, {2, 0, 4, 4}});
  CHECK(slices(LayoutKind::greedy, even, 3, 1, 2) == Slices{{1, 0, 4, 4}, {3, 0, 4, 4}});
}

// b and c in a group of their own: a, d and e are 115 elements, padded to 116; b and c are 8. The bucket that counts
// elements from the back is the same as without groups.
TEST_CASE("peer_layouts: param groups by hand") {
  const FlatLayout layout = small();
  const std::vector<int> groups = {0, 1, 1, 0, 0};
  const auto of = [&](LayoutKind kind, int rank) {
    Slices result;
    for (const PeerSlice& s : peer_slices(kind, layout, 2, 1, rank, groups)) {
      result.emplace_back(s.buffer, s.buffer_begin, s.buffer_end, s.numel);
    }
    return result;
  };
  CHECK(of(LayoutKind::deepspeed_flat, 0) == Slices{{0, 0, 58, 58}, {1, 0, 4, 4}});
  CHECK(of(LayoutKind::deepspeed_flat, 1) == Slices{{0, 58, 116, 57}, {1, 4, 8, 4}});
  const ShardMap flat = make_shard_map(LayoutKind::deepspeed_flat, layout, 2, 1, groups);
  CHECK(flat.shard(0) == Ranges{{0, 15}, {1024, 1028}, {3072, 3115}});
  CHECK(flat.shard(1) == Ranges{{1028, 1031}, {2048, 2049}, {3115, 3172}});
  // e (100) to rank 0, a (15) and d to rank 1; then b goes to rank 1 with 15, and c there too, with 22.
  CHECK(of(LayoutKind::greedy, 0) == Slices{{4, 0, 100, 100}});
  CHECK(of(LayoutKind::greedy, 1) ==
        Slices{{0, 0, 15, 15}, {3, 0, 0, 0}, {1, 0, 7, 7}, {2, 0, 1, 1}});
}

TEST_CASE("peer_layouts: the contract's own slices are those of its shard map") {
  const FlatLayout layout({{"a", {3000}}, {"b", {5}}});  // four chunks
  CHECK(slices(LayoutKind::contract, layout, 2, 3072, 0) ==
        Slices{{0, 0, 1024, 1024}, {0, 3072, 3072, 0}});
  CHECK(slices(LayoutKind::contract, layout, 2, 3072, 1) ==
        Slices{{0, 1024, 3072, 1976}, {0, 3072, 4096, 5}});
  CHECK(slices(LayoutKind::contract, layout, 1, 4096, 0) == Slices{{0, 0, 4096, 3005}});
  const ShardMap map = make_shard_map(LayoutKind::contract, layout, 2, 3072);
  CHECK(map.aligned());
  CHECK(map.slice(0, 1) == FlatRange{1024, 3072});
}

TEST_CASE("peer_layouts: buckets of whole tensors from the last to the first") {
  const FlatLayout layout({{"a", {10}}, {"b", {20}}, {"none", {0}}, {"c", {30}}, {"d", {5}}});
  const auto buckets = [&](std::int64_t numel) {
    return make_shard_map(LayoutKind::fsdp2, layout, 2, numel).buckets();
  };
  CHECK(buckets(1) == Ranges{{0, 1024}, {1024, 2048}, {2048, 3072}, {3072, 4096}});
  CHECK(buckets(35) == Ranges{{0, 2048}, {2048, 4096}});
  CHECK(buckets(36) == Ranges{{0, 1024}, {1024, 4096}});
  CHECK(buckets(65) == Ranges{{0, 4096}});
  CHECK(buckets(std::numeric_limits<std::int64_t>::max()) == Ranges{{0, 4096}});
}

TEST_CASE("peer_layouts: invalid arguments are rejected, and empty layouts are valid") {
  const FlatLayout layout = small();
  for (const LayoutKind kind : all_kinds) {
    CAPTURE(name(kind));
    for (const int world : {0, -1}) {
      CHECK(refused([&] { make_shard_map(kind, layout, world, 1024); }, "world size is"));
      CHECK(refused([&] { peer_slices(kind, layout, world, 1024, 0); }, "world size is"));
    }
    for (const std::int64_t numel : {0, -1024}) {
      CHECK(refused([&] { make_shard_map(kind, layout, 2, numel); }, "bucket_numel is"));
      CHECK(refused([&] { peer_slices(kind, layout, 2, numel, 0); }, "bucket_numel is"));
    }
    CHECK(refused([&] { peer_slices(kind, layout, 2, 1024, 2); }, "rank 2 does not exist"));
    CHECK(refused(
        [&] {
          make_shard_map(kind, layout, 2, 1024, std::vector{0, 1});
        },
        "2 param groups were given for 5 tensors"));
    CHECK(refused(
        [&] {
          peer_slices(kind, layout, 2, 1024, 0, std::vector{0, 0, -1, 0, 0});
        },
        "a param group below 0"));
    CHECK(refused([&] { peer_slices(kind, layout, 2, 1024, -1); }, "rank -1 does not exist"));
    for (const FlatLayout& nothing : {FlatLayout({}), FlatLayout({{"n", {0}}, {"m", {4, 0}}})}) {
      const ShardMap map = make_shard_map(kind, nothing, 3, 1024);
      CHECK(map.buckets().empty());
      CHECK(map.shard(2).empty());
      for (const PeerSlice& slice : peer_slices(kind, nothing, 3, 1024, 2))
        CHECK(slice.buffer_end == slice.buffer_begin);
    }
  }
  CHECK(refused([&] { make_shard_map(LayoutKind::contract, layout, 2, 1000); },
                "bucket_numel is 1000"));
  const FlatLayout wide({{"w", {1, std::int64_t{1} << 58}}});
  CHECK(refused([&] { peer_slices(LayoutKind::fsdp2, wide, 1000, 1, 0); }, "do not fit 64 bits"));
  CHECK(peer_slices(LayoutKind::deepspeed_param, wide, 1000, 1, 999).size() == 1);
  CHECK(peer_slices(LayoutKind::greedy, wide, 1000, 1, 0).size() ==
        1);  // whole tensors are not padded
  CHECK(make_shard_map(LayoutKind::megatron, wide, 1000, 1).shard_numel(999) > 0);
}

TEST_CASE("peer_layouts: a buffer with one owner has nothing for other ranks") {
  const std::vector<PeerBuffer> buffers = peer_buffers(LayoutKind::greedy, small(), 2, 1);
  REQUIRE(buffers.size() == 5);
  CHECK(share_of(buffers[0], buffers[0].tensors[0], 100, 0) == FlatRange{0, 100});
  CHECK(share_of(buffers[0], buffers[0].tensors[0], 100, 1).numel() == 0);
}

TEST_CASE("peer_layouts: names") {
  CHECK(name(LayoutKind::contract) == "contract");
  CHECK(name(LayoutKind::megatron) == "megatron");
  CHECK(name(LayoutKind::deepspeed_flat) == "deepspeed_flat");
  CHECK(name(LayoutKind::deepspeed_param) == "deepspeed_param");
  CHECK(name(LayoutKind::fsdp2) == "fsdp2");
  CHECK(name(LayoutKind::greedy) == "greedy");
}

}  // namespace peer_layouts_test
