#include "verification/workload/byte_gpt_cuts.hpp"

#include <algorithm>
#include <string>

#include "common/base/error.hpp"
#include "verification/workload/byte_gpt_place.hpp"
#include "verification/workload/byte_gpt_tensors.hpp"

namespace zeroproof::workload {
namespace {

BlockRange slice_of(std::int64_t extent, int tp_size, int tp_rank) {
  return BlockRange{extent}.part(tp_rank, tp_size);
}

void check_rank(const ByteGptShape& shape, int tp_size, int tp_rank) {
  check_shape(shape);
  check_sizes(shape, tp_size, 1);
  ZP_CHECK(tp_rank >= 0 && tp_rank < tp_size, ErrorCode::invalid_argument,
           "TP rank " + std::to_string(tp_rank) + " of " + std::to_string(tp_size) + " was asked for",
           "there is no such rank", "use 0 <= tp_rank < tp_size");
}

}  // namespace

std::vector<int> byte_gpt_cuts(const ByteGptShape& shape) {
  std::vector<int> cuts(byte_gpt_params(shape).size(), -1);
  for (int block = 0; block < shape.layers; ++block) {
    const auto cut = [&](BlockTensor which) -> int& {
      return cuts[static_cast<std::size_t>(block_tensor(block, which))];
    };
    for (const BlockTensor weight : {query, key, value, mlp_up}) {
      cut(weight) = 1;
      cut(static_cast<BlockTensor>(weight + 1)) = 0;  // its bias has the outputs alone
    }
    cut(attention_output) = cut(mlp_down) = 0;
  }
  return cuts;
}

std::vector<ParamSpec> byte_gpt_local_params(const ByteGptShape& shape, int tp_size, int tp_rank) {
  check_rank(shape, tp_size, tp_rank);
  std::vector<ParamSpec> params = byte_gpt_params(shape);
  const std::vector<int> cuts = byte_gpt_cuts(shape);
  for (std::size_t k = 0; k < params.size(); ++k) {
    if (cuts[k] < 0) continue;
    std::int64_t& extent = params[k].shape[static_cast<std::size_t>(cuts[k])];
    extent = slice_of(extent, tp_size, tp_rank).numel();
  }
  return params;
}

std::vector<TensorPlacement> byte_gpt_placements(const ByteGptShape& shape, int tp_size, int tp_rank) {
  check_rank(shape, tp_size, tp_rank);
  const FlatLayout layout(byte_gpt_params(shape));
  const std::vector<int> cuts = byte_gpt_cuts(shape);
  std::vector<TensorPlacement> placements;
  for (std::size_t k = 0; k < cuts.size(); ++k) {
    const TensorSlot& slot = layout.tensors()[k];
    TensorPlacement place{cuts[k] < 0, slot.begin, slot.numel, slot.numel};
    if (cuts[k] >= 0) {
      // Rows of the tensor are contiguous, so a cut of dimension 0 is one run and a cut of dimension 1 one
      // run per row.
      const auto dimension = static_cast<std::size_t>(cuts[k]);
      const BlockRange slice = slice_of(slot.shape[dimension], tp_size, tp_rank);
      const std::int64_t inner = cuts[k] + 1 < std::ssize(slot.shape) ? slot.shape[dimension + 1] : 1;
      place.begin += slice.begin() * inner;
      place.row_numel = std::max<std::int64_t>(slice.numel() * inner, 1);  // global() divides by it
      place.row_stride = cuts[k] == 0 ? place.row_numel : slot.shape[dimension];
    }
    placements.push_back(place);
  }
  return placements;
}

}  // namespace zeroproof::workload
