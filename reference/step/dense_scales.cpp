// Parameters in 8 bits without ranks (R24).

#include "common/step/scaled_params.hpp"
#include "reference/dense_optimizer.hpp"

namespace zeroproof::reference {

void DenseOptimizer::cast_with_scales(const TakesPart& takes_part) {
  scales_.collect(master_, pieces_, takes_part);  // of whole tensors: there is nobody to join it with
  scales_.make(takes_part);
  scales_.cast(master_, pieces_, takes_part, param_.view());
}

void DenseOptimizer::make_columns(const TakesPart& takes_part) {
  if (!setup_.scaling.columnwise) return;
  if (!column_scales_.exist())
    return transpose_codes(layout(), pieces_, param_.view(), param_columns_.view());
  column_scales_.collect(master_, pieces_, takes_part);
  column_scales_.make(takes_part);
  column_scales_.cast(master_, pieces_, takes_part, param_columns_.view());
}

void DenseOptimizer::begin_scales(const FullState& initial) {
  scales_ = ParamScales(setup_, blocks_of(setup_));
  if (setup_.scaling.columnwise) param_columns_ = ParamBuffer(setup_.param_dtype, layout().padded_numel());
  if (has_own_columns(setup_.scaling)) column_scales_ = ParamScales(setup_, column_blocks_of(setup_));
  const TakesPart all = [](std::int64_t) { return true; };
  const bool beginning = !has_loaded_scales(initial, setup_, scales_.blocks());
  if (beginning) {
    cast_with_scales(all);
  } else {
    scales_.load(initial);
    scales_.cast(master_, pieces_, all, param_.view());
  }
  if (beginning && setup_.scaling.initial_master == InitialMaster::dequantised) {
    scales_.dequantize(param_.view(), pieces_, master_);
  }
  make_columns(all);  // of the masters that the first step begins with
}

}  // namespace zeroproof::reference
