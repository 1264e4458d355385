#include "common/layout/peer_buffers.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "common/base/error.hpp"

namespace zeroproof {
namespace {

std::int64_t round_up(std::int64_t numel, std::int64_t multiple) {
  return (numel + multiple - 1) / multiple * multiple;
}

int group_at(Span<const int> group_of, std::size_t tensor) {
  return group_of.empty() ? 0 : group_of[tensor];
}

std::int64_t ceil_div(std::int64_t numel, std::int64_t parts) {
  return (numel + parts - 1) / parts;
}

/// [Megatron:buckets] A bucket is closed by the tensor with which it reaches bucket_numel, counted from its
/// start with the gaps between tensors; the rest is the last one. Bucket starts are multiples of 128,
/// so the alignment of tensors in the whole buffer is their alignment in the bucket.
std::vector<PeerBuffer> megatron(const FlatLayout& layout, int world_size,
                                 std::int64_t bucket_numel) {
  const std::int64_t end_multiple = std::lcm(std::int64_t{world_size}, std::int64_t{128});
  std::vector<PeerBuffer> buckets;
  PeerBuffer bucket;
  std::int64_t end = 0;
  const auto close = [&] {
    bucket.id = static_cast<std::int64_t>(buckets.size());
    bucket.part = round_up(end, end_multiple) / world_size;
    buckets.push_back(bucket);
    bucket.tensors.clear();
    end = 0;
  };
  for (std::size_t tensor = layout.tensors().size(); tensor-- > 0;) {
    const std::int64_t begin = round_up(end, 64);
    bucket.tensors.push_back({static_cast<std::int64_t>(tensor), begin});
    end = begin + layout.tensors()[tensor].numel;
    if (end >= bucket_numel) close();
  }
  if (!bucket.tensors.empty()) close();
  return buckets;
}

/// [DeepSpeed:flat] In registration order: gradients are distributed round robin only if configured.
/// An empty group has no buffer.
std::vector<PeerBuffer> deepspeed_flat(const FlatLayout& layout, int world_size,
                                       Span<const int> group_of) {
  std::map<int, PeerBuffer> buffers;
  for (std::size_t tensor = 0; tensor < layout.tensors().size(); ++tensor) {
    PeerBuffer& buffer = buffers[group_at(group_of, tensor)];
    buffer.tensors.push_back({static_cast<std::int64_t>(tensor), buffer.part});
    buffer.part += layout.tensors()[tensor].numel;  // of all ranks, for now
  }
  std::vector<PeerBuffer> in_order;
  for (auto& [group, buffer] : buffers) {
    buffer.id = group;
    buffer.part = round_up(buffer.part, 2 * std::int64_t{world_size}) / world_size;
    in_order.push_back(std::move(buffer));
  }
  return in_order;
}

/// A buffer for every tensor, with parts of as many elements as `part_of` says.
template <class PartOf>
std::vector<PeerBuffer> one_per_tensor(const FlatLayout& layout, const PartOf& part_of) {
  std::vector<PeerBuffer> buffers;
  for (const TensorSlot& slot : layout.tensors()) {
    const auto tensor = static_cast<std::int64_t>(buffers.size());
    buffers.push_back({tensor, part_of(slot), -1, {{tensor, 0}}});
  }
  return buffers;
}

/// [FSDP2:rows] Every rank allocates as many rows as rank 0. The system rejects tensors without dimensions
/// and requires one of a single row instead; here they count as one row.
std::int64_t fsdp2_part(const TensorSlot& slot, int world_size) {
  const std::int64_t rows = slot.shape.empty() ? 1 : slot.shape.front();
  return slot.numel == 0 ? 0 : ceil_div(rows, world_size) * (slot.numel / rows);
}

/// [ZeroRedundancyOptimizer:greedy] Tensors of one size keep their order, and of ranks with one load the
/// first is taken: the system sorts stably and searches for the strict minimum. Every group is sorted by itself; the
/// loads are those of all groups before. Buffers come in the order of distribution.
std::vector<PeerBuffer> greedy(const FlatLayout& layout, int world_size, Span<const int> group_of) {
  std::vector<PeerBuffer> buffers =
      one_per_tensor(layout, [](const TensorSlot& slot) { return slot.numel; });
  const auto group = [&](const PeerBuffer& b) {
    return group_at(group_of, static_cast<std::size_t>(b.id));
  };
  std::stable_sort(buffers.begin(), buffers.end(), [&](const PeerBuffer& a, const PeerBuffer& b) {
    return group(a) != group(b) ? group(a) < group(b) : a.part > b.part;
  });
  std::vector<std::int64_t> loads(world_size);
  for (PeerBuffer& buffer : buffers) {
    const auto least = std::min_element(loads.begin(), loads.end());
    buffer.owner = static_cast<int>(least - loads.begin());
    *least += buffer.part;
  }
  return buffers;
}

std::vector<PeerBuffer> dealt_out(LayoutKind kind, const FlatLayout& layout, int world_size,
                                  std::int64_t bucket_numel, Span<const int> group_of) {
  switch (kind) {
    case LayoutKind::contract:
      break;
    case LayoutKind::megatron:
      return megatron(layout, world_size, bucket_numel);
    case LayoutKind::deepspeed_flat:
      return deepspeed_flat(layout, world_size, group_of);
    case LayoutKind::deepspeed_param:  // [DeepSpeed:param]
      return one_per_tensor(
          layout, [&](const TensorSlot& slot) { return ceil_div(slot.numel, world_size); });
    case LayoutKind::fsdp2:
      return one_per_tensor(layout,
                            [&](const TensorSlot& slot) { return fsdp2_part(slot, world_size); });
    case LayoutKind::greedy:
      return greedy(layout, world_size, group_of);
  }
  fail(ErrorCode::internal, "a layout has no buffers", "only the contract's layout has none",
       "add them to dealt_out()");
}

}  // namespace

std::vector<PeerBuffer> peer_buffers(LayoutKind kind, const FlatLayout& layout, int world_size,
                                     std::int64_t bucket_numel, Span<const int> group_of) {
  std::vector<PeerBuffer> buffers = dealt_out(kind, layout, world_size, bucket_numel, group_of);
  for (const PeerBuffer& buffer : buffers) {
    ZP_CHECK(
        buffer.owner >= 0 || buffer.part <= std::numeric_limits<std::int64_t>::max() / world_size,
        ErrorCode::invalid_argument,
        std::to_string(world_size) + " parts of " + std::to_string(buffer.part) +
            " elements do not fit 64 bits",
        "padding makes every part as large as the first", "split the tensor or use fewer ranks");
  }
  return buffers;
}

FlatRange share_of(const PeerBuffer& buffer, const PlacedTensor& placed, std::int64_t numel,
                   int rank) {
  if (buffer.owner >= 0) return {0, rank == buffer.owner ? numel : 0};
  const std::int64_t begin = buffer.part * rank - placed.begin;
  return {std::clamp<std::int64_t>(begin, 0, numel),
          std::clamp<std::int64_t>(begin + buffer.part, 0, numel)};
}

}  // namespace zeroproof
