// Every layout against the system it is named after, element by element: owner, and position there.

#include <doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/layout/peer_layouts.hpp"
#include "common/step/policy.hpp"
#include "tests/common/peer_systems.hpp"

namespace peer_layouts_brute_force_test {

using namespace zeroproof;
using namespace zeroproof_test;

namespace {

using Shape = std::vector<std::int64_t>;

/// Odd sizes, empty tensors, fewer elements or rows than ranks, no rows, no dimensions, ties, one large
/// tensor.
const std::vector<std::vector<Shape>> models = {
    {},
    {{0}, {0, 5}, {7, 0}},
    {{}},
    {{1}, {}, {1, 1}, {2}},
    {{3, 5}, {7}, {}, {0}, {2, 50}},
    {{0}, {129}, {0, 3}, {64}, {63, 2}, {0}},
    {{4}, {4}, {2, 2}, {4}, {4}, {4}, {4}, {8}, {8}},
    {{1025, 3}},
    {{20011}},
    {{1, 3000}, {999}, {1001}, {1000}, {1023}, {1024}, {2, 512}, {13, 77}},
};

/// Many tensors of two sizes: an unstable sort would change their order.
std::vector<Shape> many_of_two_sizes() {
  std::vector<Shape> shapes;
  for (std::int64_t i = 0; i < 70; ++i) shapes.push_back({2 + i * i % 7 % 2});
  return shapes;
}

FlatLayout layout_of(const std::vector<Shape>& shapes) {
  std::vector<ParamSpec> params;
  for (const Shape& shape : shapes) params.push_back({"p" + std::to_string(params.size()), shape});
  return FlatLayout(params);
}

/// Owner of every index of the global numbering by the shard map: -1 without one, -2 with several.
std::vector<int> owners(const ShardMap& map) {
  std::vector<int> owner(map.padded_numel(), -1);
  for (int rank = 0; rank < map.world_size(); ++rank) {
    for (const FlatRange& range : map.shard(rank)) {
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        int& mine = owner[i];
        mine = mine == -1 ? rank : -2;
      }
    }
  }
  return owner;
}

/// The same by the system's buffers, of which every rank has the part that its slices name.
struct Dealt {
  std::vector<int> owner;
  bool tiled =
      true;  ///< the slices of all ranks are the buffers, each index once, and count their elements
};

/// The pieces of a slice are the elements of the buffer there, each once, in its order; between them is padding.
bool pieces_agree(const PeerSlice& slice, const LiteralBuffer& buffer, const FlatLayout& layout) {
  bool ok = true;
  std::int64_t at = slice.buffer_begin;
  const auto padded_until = [&](std::int64_t end) {
    for (; at < end; ++at) ok = ok && buffer.content[at] == padding;
  };
  for (const PeerPiece& piece : slice.pieces) {
    padded_until(piece.buffer_begin);
    ok = ok && at == piece.buffer_begin && piece.numel >= 1;
    const TensorSlot& slot = layout.tensors()[piece.tensor];
    for (std::int64_t e = 0; e < piece.numel; ++e, ++at) {
      ok = ok && buffer.content[at] == slot.begin + piece.tensor_begin + e;
    }
  }
  padded_until(slice.buffer_end);
  return ok && at == slice.buffer_end;
}

Dealt deal(LayoutKind kind, const FlatLayout& layout, int world, std::int64_t bucket_numel,
           const GroupOf& groups) {
  const std::vector<LiteralBuffer> buffers =
      literal_buffers(kind, layout, world, bucket_numel, groups);
  Dealt dealt{std::vector<int>(layout.padded_numel(), -1), true};
  std::vector<std::size_t> next(
      buffers.size());  // first index of each buffer without a rank so far
  for (int rank = 0; rank < world; ++rank) {
    const std::vector<PeerSlice> slices =
        peer_slices(kind, layout, world, bucket_numel, rank, groups);
    std::size_t used = 0;
    for (std::size_t b = 0; b < buffers.size(); ++b) {
      const LiteralBuffer& buffer = buffers[b];
      if (buffer.owner >= 0 && buffer.owner != rank) continue;
      const std::size_t parts = buffer.owner >= 0 ? 1 : static_cast<std::size_t>(world);
      const std::size_t end = next[b] + buffer.content.size() / parts;
      std::int64_t elements = 0;
      for (std::size_t i = next[b]; i < end; ++i) {
        const std::int64_t global = buffer.content[i];
        if (global == padding) continue;
        ++elements;
        int& mine = dealt.owner[global];
        mine = mine == -1 ? rank : -2;
      }
      dealt.tiled = dealt.tiled && used < slices.size() && slices[used].buffer == buffer.id &&
                    slices[used].buffer_begin == static_cast<std::int64_t>(next[b]) &&
                    slices[used].buffer_end == static_cast<std::int64_t>(end) &&
                    slices[used].numel == elements && pieces_agree(slices[used], buffer, layout);
      ++used;
      next[b] = end;
    }
    dealt.tiled = dealt.tiled && used == slices.size();
  }
  for (std::size_t b = 0; b < buffers.size(); ++b)
    dealt.tiled = dealt.tiled && next[b] == buffers[b].content.size();
  return dealt;
}

/// Exactly the elements of tensors have one owner; padding has none.
bool owned_once(const std::vector<int>& owner, const FlatLayout& layout) {
  bool ok = true;
  for (std::size_t i = 0; i < owner.size(); ++i) {
    ok = ok &&
         (layout.tensor_at(static_cast<std::int64_t>(i)) >= 0 ? owner[i] >= 0 : owner[i] == -1);
  }
  return ok;
}

/// Buckets start with a tensor, have reached bucket_numel (but the first), and had not before their first
/// tensor.
bool buckets_reach(const ShardMap& map, const FlatLayout& layout, std::int64_t bucket_numel) {
  bool ok = true;
  for (const FlatRange& bucket : map.buckets()) {
    std::int64_t numel = 0;
    std::int64_t first = -1;  // elements of its first tensor
    for (const TensorSlot& slot : layout.tensors()) {
      if (slot.numel == 0 || slot.begin < bucket.begin || slot.begin >= bucket.end) continue;
      if (first < 0) ok = ok && slot.begin == bucket.begin;
      if (first < 0) first = slot.numel;
      numel += slot.numel;
    }
    ok = ok && first > 0 && (bucket.begin == 0 || numel >= bucket_numel) &&
         numel - first < bucket_numel;
  }
  return ok;
}

/// Every buffer of the system is in one bucket of the map.
bool buckets_agree(const ShardMap& map, const std::vector<LiteralBuffer>& buffers) {
  std::size_t met = 0;
  for (const LiteralBuffer& buffer : buffers) {
    std::vector<std::int64_t> elements;
    std::copy_if(buffer.content.begin(), buffer.content.end(), std::back_inserter(elements),
                 [](std::int64_t global) { return global != padding; });
    if (elements.empty()) continue;
    const auto [least, most] = std::minmax_element(elements.begin(), elements.end());
    const std::int64_t begin = *least;
    const std::int64_t end = *most;
    met += static_cast<std::size_t>(std::count_if(
        map.buckets().begin(), map.buckets().end(),
        [&](const FlatRange& range) { return range.begin == begin && end < range.end; }));
  }
  return met == map.buckets().size();
}

void check_layout(LayoutKind kind, const FlatLayout& layout, int world, std::int64_t bucket_numel,
                  const GroupOf& groups = {}) {
  const ShardMap map = make_shard_map(kind, layout, world, bucket_numel, groups);
  const Dealt dealt = deal(kind, layout, world, bucket_numel, groups);
  CHECK(dealt.tiled);
  CHECK(owners(map) == dealt.owner);
  CHECK(owned_once(dealt.owner, layout));
  CHECK(map.covers(layout));
  if (kind == LayoutKind::megatron) {
    CHECK(buckets_agree(map, literal_buffers(kind, layout, world, bucket_numel)));
  } else {
    CHECK(buckets_reach(map, layout, bucket_numel));
  }
}

}  // namespace

TEST_CASE("peer_layouts: greedy keeps the order of many tensors of one size") {
  const FlatLayout layout = layout_of(many_of_two_sizes());
  for (const int world : {1, 3, 8}) check_layout(LayoutKind::greedy, layout, world, 20);
}

TEST_CASE("peer_layouts: param groups, also empty ones") {
  for (const LayoutKind kind :
       {LayoutKind::megatron, LayoutKind::deepspeed_flat, LayoutKind::deepspeed_param,
        LayoutKind::fsdp2, LayoutKind::greedy}) {
    for (std::size_t model = 0; model < models.size(); ++model) {
      const FlatLayout layout = layout_of(models[model]);
      GroupOf groups;
      for (std::size_t t = 0; t < layout.tensors().size(); ++t)
        groups.push_back(std::vector{3, 1, 3, 0, 1}[t % 5]);
      for (const int world : {1, 2, 3, 8}) {
        CAPTURE(name(kind));
        CAPTURE(model);
        CAPTURE(world);
        check_layout(kind, layout, world, 100, groups);
      }
    }
  }
}

TEST_CASE("peer_layouts: every element has the owner and the position of its system") {
  for (const LayoutKind kind :
       {LayoutKind::megatron, LayoutKind::deepspeed_flat, LayoutKind::deepspeed_param,
        LayoutKind::fsdp2, LayoutKind::greedy}) {
    for (std::size_t model = 0; model < models.size(); ++model) {
      const FlatLayout layout = layout_of(models[model]);
      for (const int world : {1, 2, 3, 5, 6, 7, 8, 64, 1000}) {
        for (const std::int64_t bucket_numel : {1, 64, 100, 1000, 1025, 1'000'000}) {
          CAPTURE(name(kind));
          CAPTURE(model);
          CAPTURE(world);
          CAPTURE(bucket_numel);
          check_layout(kind, layout, world, bucket_numel);
        }
      }
    }
  }
}

}  // namespace peer_layouts_brute_force_test
