#pragma once
// Existing systems distribute elements one by one: slow, literal, and independent of
// common/layout/peer_buffers.cpp.

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "common/layout/flat_layout.hpp"
#include "common/layout/peer_layouts.hpp"

namespace zeroproof_test {

using zeroproof::FlatLayout;
using zeroproof::LayoutKind;
using zeroproof::TensorSlot;

inline constexpr std::int64_t padding = -1;

/// Content of a buffer: global indices of elements, or padding.
struct LiteralBuffer {
  std::int64_t id = 0;
  int owner = -1;  ///< -1: every rank has an equal part
  std::vector<std::int64_t> content;
};

inline void append(std::vector<std::int64_t>& content, const TensorSlot& slot) {
  for (std::int64_t e = 0; e < slot.numel; ++e) content.push_back(slot.begin + e);
}

inline void pad(std::vector<std::int64_t>& content, std::size_t multiple) {
  while (content.size() % multiple != 0) content.push_back(padding);
}

/// One long buffer in reverse registration order, split into buckets afterwards.
inline std::vector<LiteralBuffer> literal_megatron(const FlatLayout& layout, int world,
                                                   std::int64_t bucket_numel) {
  const auto end_multiple = static_cast<std::size_t>(std::lcm(world, 128));
  std::vector<std::int64_t> content;
  std::vector<std::size_t> ends;
  bool open = false;
  for (auto slot = layout.tensors().rbegin(); slot != layout.tensors().rend(); ++slot) {
    pad(content, 64);
    append(content, *slot);
    open = true;
    const std::size_t start = ends.empty() ? 0 : ends.back();
    if (static_cast<std::int64_t>(content.size() - start) < bucket_numel) continue;
    pad(content, end_multiple);
    ends.push_back(content.size());
    open = false;
  }
  if (open) {
    pad(content, end_multiple);
    ends.push_back(content.size());
  }
  std::vector<LiteralBuffer> buckets;
  std::size_t start = 0;
  for (const std::size_t end : ends) {
    const auto at = [&](std::size_t i) { return content.begin() + static_cast<std::ptrdiff_t>(i); };
    buckets.push_back({static_cast<std::int64_t>(buckets.size()), -1, {at(start), at(end)}});
    start = end;
  }
  return buckets;
}

/// torch.chunk along dimension 0, every chunk padded to the size of the first.
inline std::vector<std::int64_t> literal_chunks(const TensorSlot& slot, int world) {
  const std::int64_t rows = slot.shape.empty() ? 1 : slot.shape[0];
  std::vector<std::int64_t> content;
  if (slot.numel == 0) return content;
  std::int64_t chunk_rows = 0;
  while (chunk_rows * world < rows) ++chunk_rows;
  std::int64_t row = 0;
  for (int rank = 0; rank < world; ++rank) {
    for (std::int64_t i = 0; i < chunk_rows; ++i, ++row) {
      for (std::int64_t e = 0; e < slot.numel / rows; ++e) {
        content.push_back(row < rows ? slot.begin + row * (slot.numel / rows) + e : padding);
      }
    }
  }
  return content;
}

/// Param groups of the tensors of a model; none: all are in group 0.
using GroupOf = std::vector<int>;
inline int group_of_tensor(const GroupOf& groups, std::size_t tensor) {
  return groups.empty() ? 0 : groups[tensor];
}

/// Repeatedly the largest remaining tensor of the lowest group, the first of its size, to the least
/// loaded rank, the first of its load.
inline std::vector<LiteralBuffer> literal_greedy(const FlatLayout& layout, int world,
                                                 const GroupOf& groups) {
  std::vector<LiteralBuffer> buffers;
  std::vector<bool> taken(layout.tensors().size());
  std::vector<std::int64_t> loads(world);
  for (std::size_t turn = 0; turn < taken.size(); ++turn) {
    std::size_t largest = taken.size();
    for (std::size_t t = 0; t < taken.size(); ++t) {
      if (taken[t]) continue;
      if (largest == taken.size()) {
        largest = t;
        continue;
      }
      const int lower = group_of_tensor(groups, largest) - group_of_tensor(groups, t);
      const bool larger = layout.tensors()[t].numel > layout.tensors()[largest].numel;
      if (lower > 0 || (lower == 0 && larger)) largest = t;
    }
    std::size_t rank = 0;
    for (std::size_t r = 1; r < loads.size(); ++r) rank = loads[r] < loads[rank] ? r : rank;
    taken[largest] = true;
    loads[rank] += layout.tensors()[largest].numel;
    LiteralBuffer buffer{static_cast<std::int64_t>(largest), static_cast<int>(rank), {}};
    append(buffer.content, layout.tensors()[largest]);
    buffers.push_back(std::move(buffer));
  }
  return buffers;
}

/// A buffer for every non-empty group, padded to twice the world.
inline std::vector<LiteralBuffer> literal_flat(const FlatLayout& layout, int world,
                                               const GroupOf& groups) {
  std::vector<LiteralBuffer> buffers;
  for (int group = 0; group < 10; ++group) {
    LiteralBuffer buffer{group, -1, {}};
    bool used = false;
    for (std::size_t t = 0; t < layout.tensors().size(); ++t) {
      if (group_of_tensor(groups, t) != group) continue;
      append(buffer.content, layout.tensors()[t]);
      used = true;
    }
    pad(buffer.content, 2 * static_cast<std::size_t>(world));
    if (used) buffers.push_back(std::move(buffer));
  }
  return buffers;
}

inline std::vector<LiteralBuffer> literal_buffers(LayoutKind kind, const FlatLayout& layout,
                                                  int world, std::int64_t bucket_numel,
                                                  const GroupOf& groups = {}) {
  if (kind == LayoutKind::megatron) return literal_megatron(layout, world, bucket_numel);
  if (kind == LayoutKind::greedy) return literal_greedy(layout, world, groups);
  if (kind == LayoutKind::deepspeed_flat) return literal_flat(layout, world, groups);
  std::vector<LiteralBuffer> buffers;
  for (const TensorSlot& slot : layout.tensors()) {
    LiteralBuffer buffer{static_cast<std::int64_t>(buffers.size()), -1, {}};
    if (kind == LayoutKind::fsdp2) {
      buffer.content = literal_chunks(slot, world);
    } else {
      append(buffer.content, slot);
      pad(buffer.content, static_cast<std::size_t>(world));
    }
    buffers.push_back(std::move(buffer));
  }
  return buffers;
}

}  // namespace zeroproof_test
