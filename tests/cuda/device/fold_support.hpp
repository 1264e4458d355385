#pragma once
// A fold on a device, compared byte by byte with single additions computed here.

#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "tests/cuda/device/node_view_support.hpp"

namespace zeroproof::device_test {

using Values = std::vector<float>;
using Fold = std::function<float(const Values&)>;

/// R11: node (level, index) of the tree over micro-batches [0, end), from the given nodes.
inline std::optional<float> node_value(const std::map<std::pair<int, std::int64_t>, float>& given,
                                       std::int64_t end, int level, std::int64_t index) {
  if (index << level >= end) return std::nullopt;
  if (const auto found = given.find({level, index}); found != given.end()) return found->second;
  const auto left = node_value(given, end, level - 1, 2 * index);
  const auto right = node_value(given, end, level - 1, 2 * index + 1);
  return right ? *left + *right : *left;
}

/// The lowest node that covers all micro-batches, computed from given nodes.
inline float tree_by_hand(const std::vector<TreeNode>& nodes, const Values& values) {
  std::map<std::pair<int, std::int64_t>, float> given;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    given[{nodes[i].level, nodes[i].index}] = values[i];
  const std::int64_t end = (nodes.back().index + 1) << nodes.back().level;
  int level = 0;
  while (std::int64_t{1} << level < end) ++level;
  return *node_value(given, end, level, 0);
}

inline std::vector<TreeNode> leaves(std::int64_t count) {
  std::vector<TreeNode> nodes;
  for (std::int64_t j = 0; j < count; ++j) nodes.push_back({0, j});
  return nodes;
}

struct Where {
  std::vector<Placement> operands;  ///< in turn
  Placement sum;
  int sum_is = -1;  ///< index of the operand that is also the sum
};

/// Runs a plan and checks every byte: the sum, and all bytes that must not change.
inline void check_fold(const std::vector<Piece>& pieces, const cuda::host::FoldPlan& plan,
                       const std::vector<DType>& dtypes, const Where& where, const Fold& fold) {
  const DevicePieceList list(pieces);
  std::vector<PlacedBuffer> buffers;
  const auto dtype = [&](std::size_t k) { return dtypes[k % dtypes.size()]; };
  for (std::size_t k = 0; k < plan.num_nodes(); ++k) {
    buffers.emplace_back(pieces, static_cast<int>(num_bytes(dtype(k))),
                         where.operands[k % where.operands.size()]);
    for (const Piece& piece : pieces) {
      for (std::int64_t i = 0; i < piece.numel; ++i) {
        buffers[k].set(
            piece, i,
            some_bits(dtype(k), static_cast<std::uint64_t>(piece.global_begin + i), k + 2));
      }
    }
    buffers[k].upload();
  }
  std::vector<std::vector<float>> expected;
  for (const Piece& piece : pieces) {
    expected.emplace_back();
    for (std::int64_t i = 0; i < piece.numel; ++i) {
      Values values;
      for (std::size_t k = 0; k < plan.num_nodes(); ++k) {
        values.push_back(widened_by_hand(dtype(k), buffers[k].get(piece, i)));
      }
      expected.back().push_back(fold(values));
    }
  }
  if (where.sum_is < 0) {
    buffers.emplace_back(pieces, 4, where.sum);
    buffers.back().upload();
  }
  const std::size_t sum =
      where.sum_is < 0 ? plan.num_nodes() : static_cast<std::size_t>(where.sum_is);
  std::vector<cuda::device::PlacedValues> operands;
  for (std::size_t k = 0; k < plan.num_nodes(); ++k)
    operands.push_back(buffers[k].values(dtype(k)));

  cuda::device::enqueue_fold(list.get(), plan, operands, buffers[sum].values(DType::fp32));
  cuda::device::wait_for_stream();
  for (PlacedBuffer& buffer : buffers) buffer.download();
  std::int64_t wrong = 0;
  for (std::size_t p = 0; p < pieces.size(); ++p) {
    for (std::int64_t i = 0; i < pieces[p].numel; ++i) {
      const float found = std::bit_cast<float>(buffers[sum].get(pieces[p], i));
      if (!same(found, expected[p][i])) ++wrong;
      buffers[sum].take_back(pieces[p], i);
    }
  }
  CHECK(wrong == 0);
  for (const PlacedBuffer& buffer : buffers) CHECK(buffer.is_as_uploaded());
}

inline void check_tree(const std::vector<std::int64_t>& numels, const std::vector<TreeNode>& nodes,
                       const std::vector<DType>& dtypes, const Where& where) {
  check_fold(pieces_of(numels), cuda::host::FoldPlan(nodes), dtypes, where,
             [&](const Values& values) { return tree_by_hand(nodes, values); });
}

inline const Where aligned{{{true, 0}}, {true, 0}};
inline const std::vector<Where> everywhere = {
    aligned,
    {{{false, 0}}, {false, 0}},
    {{{true, 1}}, {true, 1}},                          // packs after a few single elements
    {{{false, 3}, {true, 2}}, {true, 2}},              // both numberings
    {{{true, 0}, {true, 1}, {false, 2}}, {false, 1}},  // without packs
};

inline const std::vector<std::vector<DType>> formats = {
    {DType::bf16},
    {DType::fp16},
    {DType::fp32},
    {DType::fp32, DType::bf16, DType::bf16, DType::fp16}};

}  // namespace zeroproof::device_test
