#include "common/layout/peer_layouts.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <utility>

#include "common/base/error.hpp"
#include "common/layout/peer_buffers.hpp"

namespace zeroproof {
namespace {

constexpr std::array<std::string_view, 6> kinds = {"contract",        "megatron", "deepspeed_flat",
                                                   "deepspeed_param", "fsdp2",    "greedy"};

void check(const FlatLayout& layout, int world_size, std::int64_t bucket_numel,
           Span<const int> group_of) {
  ZP_CHECK(world_size >= 1, ErrorCode::invalid_argument,
           "world size is " + std::to_string(world_size),
           "a layout needs an owner for every element", "use a world size of 1 or more");
  ZP_CHECK(bucket_numel >= 1, ErrorCode::invalid_argument,
           "bucket_numel is " + std::to_string(bucket_numel), "it is the size of a bucket",
           "use 1 or more");
  ZP_CHECK(group_of.empty() || group_of.size() == layout.tensors().size(),
           ErrorCode::invalid_argument,
           std::to_string(group_of.size()) + " param groups were given for " +
               std::to_string(layout.tensors().size()) + " tensors",
           "every tensor is in one", "pass one number per tensor, or none");
  ZP_CHECK(std::all_of(group_of.begin(), group_of.end(), [](int group) { return group >= 0; }),
           ErrorCode::invalid_argument, "a tensor is in a param group below 0",
           "groups are counted from 0", "number them as ParamGroups does");
}

/// One slice for every bucket of the contract, in the global numbering.
std::vector<PeerSlice> contract_slices(const FlatLayout& layout, int world_size,
                                       std::int64_t bucket_numel, int rank) {
  const ShardMap map(layout.padded_numel(), world_size, bucket_numel);
  std::vector<PeerSlice> slices;
  for (std::size_t bucket = 0; bucket < map.buckets().size(); ++bucket) {
    const FlatRange range = map.slice(bucket, rank);
    PeerSlice slice{0, range.begin, range.end, 0};
    for (const Piece& piece : layout.pieces({range})) {
      slice.numel += piece.numel;
      slice.pieces.push_back({piece.tensor, piece.tensor_begin, piece.global_begin, piece.numel});
    }
    slices.push_back(slice);
  }
  return slices;
}

/// Owned ranges of every tensor, in the order of their elements. Visits only ranks whose part
/// intersects the tensor.
using Owned = std::vector<std::pair<int, FlatRange>>;
std::vector<Owned> owned_by_tensor(const std::vector<PeerBuffer>& buffers,
                                   const FlatLayout& layout) {
  std::vector<Owned> owned(layout.tensors().size());
  for (const PeerBuffer& buffer : buffers) {
    for (const PlacedTensor& placed : buffer.tensors) {
      const TensorSlot& slot = layout.tensors()[placed.tensor];
      if (slot.numel == 0) continue;
      const bool whole = buffer.owner >= 0;
      const int last =
          whole ? buffer.owner : static_cast<int>((placed.begin + slot.numel - 1) / buffer.part);
      for (int rank = whole ? buffer.owner : static_cast<int>(placed.begin / buffer.part);
           rank <= last; ++rank) {
        const FlatRange share = share_of(buffer, placed, slot.numel, rank);
        owned[placed.tensor].push_back({rank, {slot.begin + share.begin, slot.begin + share.end}});
      }
    }
  }
  return owned;
}

/// First tensors of the buckets, from the last bucket to the first.
std::vector<std::size_t> bucket_starts(LayoutKind kind, const std::vector<PeerBuffer>& buffers,
                                       const FlatLayout& layout, std::int64_t bucket_numel) {
  std::vector<std::size_t> starts;
  if (kind == LayoutKind::megatron) {
    for (const PeerBuffer& bucket : buffers)
      starts.push_back(static_cast<std::size_t>(bucket.tensors.back().tensor));
    return starts;
  }
  std::int64_t numel = 0;
  for (std::size_t tensor = layout.tensors().size(); tensor-- > 0;) {
    numel += layout.tensors()[tensor].numel;
    if (numel < bucket_numel && tensor > 0) continue;
    starts.push_back(tensor);
    numel = 0;
  }
  return starts;
}

}  // namespace

Span<const std::string_view> names_of(LayoutKind) { return kinds; }

std::vector<PeerSlice> peer_slices(LayoutKind kind, const FlatLayout& layout, int world_size,
                                   std::int64_t bucket_numel, int rank, Span<const int> group_of) {
  check(layout, world_size, bucket_numel, group_of);
  ZP_CHECK(rank >= 0 && rank < world_size, ErrorCode::invalid_argument,
           "rank " + std::to_string(rank) + " does not exist",
           "there are " + std::to_string(world_size) + " ranks", "count from 0");
  if (kind == LayoutKind::contract) return contract_slices(layout, world_size, bucket_numel, rank);
  std::vector<PeerSlice> slices;
  for (const PeerBuffer& buffer : peer_buffers(kind, layout, world_size, bucket_numel, group_of)) {
    if (buffer.owner >= 0 && buffer.owner != rank) continue;
    const std::int64_t begin = buffer.owner >= 0 ? 0 : buffer.part * rank;
    PeerSlice slice{buffer.id, begin, begin + buffer.part, 0};
    for (const PlacedTensor& placed : buffer.tensors) {
      const std::int64_t numel = layout.tensors()[placed.tensor].numel;
      const FlatRange share = share_of(buffer, placed, numel, rank);
      if (share.numel() == 0) continue;
      slice.numel += share.numel();
      slice.pieces.push_back(
          {placed.tensor, share.begin, placed.begin + share.begin, share.numel()});
    }
    slices.push_back(slice);
  }
  return slices;
}

ShardMap make_shard_map(LayoutKind kind, const FlatLayout& layout, int world_size,
                        std::int64_t bucket_numel, Span<const int> group_of) {
  check(layout, world_size, bucket_numel, group_of);
  if (kind == LayoutKind::contract) return {layout.padded_numel(), world_size, bucket_numel};
  const std::vector<PeerBuffer> buffers =
      peer_buffers(kind, layout, world_size, bucket_numel, group_of);
  const std::vector<Owned> owned = owned_by_tensor(buffers, layout);
  std::vector<Bucket> buckets;
  std::size_t end = layout.tensors().size();
  for (const std::size_t start : bucket_starts(kind, buffers, layout, bucket_numel)) {
    const std::int64_t flat_end =
        end == layout.tensors().size() ? layout.padded_numel() : layout.tensors()[end].begin;
    Bucket bucket{{layout.tensors()[start].begin, flat_end}, {}};
    bucket.owned.resize(world_size);
    for (std::size_t tensor = start; tensor < end; ++tensor) {
      for (const auto& [rank, range] : owned[tensor]) bucket.owned[rank].push_back(range);
    }
    if (bucket.range.numel() > 0)
      buckets.push_back(std::move(bucket));  // empty tensors have no elements
    end = start;
  }
  std::reverse(buckets.begin(), buckets.end());
  return {layout.padded_numel(), world_size, std::move(buckets)};
}

}  // namespace zeroproof
