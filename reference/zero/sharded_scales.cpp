// Parameters in 8 bits on one rank of many (R24) [SCALE:step]. W = 3 ranks, a tensor with the blocks A and B:
//
//                    rank 0            rank 1            rank 2
//   master           A.                .A BB             -              a shard may cut a block, or have none
//   amax of its own  a0 0              a1 b1             0 0            integers
//   maximum          max(a0, a1) b1    the same          the same       all ranks make the same scales
//   codes            A.                .A BB             -
//   gather           A. .A BB          the same          the same       bytes
//
// Blocks of one row have blocks of one column beside them, with a code of every element for each: the same, once more
// [SCALE:columns].

#include <algorithm>

#include "common/step/scaled_params.hpp"
#include "reference/zero/ranks.hpp"
#include "reference/zero/sharded_optimizer.hpp"

namespace zeroproof::reference {

void ShardedOptimizer::init_scales() {
  scales_ = ParamScales(setup_, blocks_of(setup_));
  if (setup_.scaling.columnwise) param_columns_ = ParamBuffer(setup_.param_dtype, numel_of(full_ranges_));
  if (!has_own_columns(setup_.scaling)) return;
  column_scales_ = ParamScales(setup_, column_blocks_of(setup_));
  column_shard_ = ParamBuffer(setup_.param_dtype, numel_of(ranges_));
}

void ShardedOptimizer::make_scales(ParamScales& scales, const TakesPart& takes_part) {
  scales.collect(master_, pieces_, takes_part);
  // A block may lie on several ranks, a tensor that TP cuts on several TP ranks; instances have the same masters.
  std::vector<std::uint64_t> amax(scales.amax.begin(), scales.amax.end());
  all_reduce({setup_.comm, setup_.tp}, amax, IntegerReduce::max);
  std::ranges::transform(amax, scales.amax.begin(),
                         [](std::uint64_t word) { return static_cast<std::uint32_t>(word); });
  scales.make(takes_part);
}

void ShardedOptimizer::load_with_scales(const FullState& state) {
  const TakesPart all = [](std::int64_t) { return true; };
  const bool beginning = !has_loaded_scales(state, setup_, scales_.blocks());
  if (beginning) {
    scales_.begin();
    make_scales(scales_, all);
  } else {
    scales_.load(state);
  }
  scales_.cast(master_, pieces_, all, param_shard_.view());
  const std::vector<Piece> pieces = setup_.layout->pieces(full_ranges_);
  scales_.cast(values_of(state.master, pieces), pieces, all, param_full_.view());
  if (beginning && setup_.scaling.initial_master == InitialMaster::dequantised) {
    scales_.dequantize(param_shard_.view(), pieces_, master_);
  }
  cast_columns(all);
  make_columns();
}

void ShardedOptimizer::cast_with_scales() {
  // A tensor that nobody used keeps everything, or its codes would be read with a scale that is not theirs.
  const TakesPart used = [this](std::int64_t tensor) {
    return !counts_.per_tensor || has_grad_[static_cast<std::size_t>(tensor)];
  };
  scales_.move_histories(used);
  make_scales(scales_, used);
  scales_.cast(master_, pieces_, used, param_shard_.view());
  cast_columns(used);
}

void ShardedOptimizer::cast_columns(const TakesPart& takes_part) {
  if (!column_scales_.exist()) return;
  make_scales(column_scales_, takes_part);
  column_scales_.cast(master_, pieces_, takes_part, column_shard_.view());
}

void ShardedOptimizer::make_columns() {
  if (!setup_.scaling.columnwise) return;
  if (column_scales_.exist()) return gather_codes(column_shard_.view(), param_columns_.view());
  transpose_codes(*setup_.layout, setup_.layout->pieces(full_ranges_), param_full_.view(),
                  param_columns_.view());
}

}  // namespace zeroproof::reference
