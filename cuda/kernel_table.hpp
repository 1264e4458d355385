#pragma once
// The elementwise host implementations called by the production optimizer, as one table with
// replaceable entries.

#include <algorithm>

#include "common/contracts/block_scale.hpp"
#include "common/contracts/cast.hpp"
#include "common/contracts/clip.hpp"
#include "common/contracts/grad_norm.hpp"
#include "common/contracts/grad_scale.hpp"
#include "common/contracts/grad_sum.hpp"
#include "common/contracts/lamb.hpp"
#include "common/contracts/muon.hpp"
#include "common/contracts/scale_recipe.hpp"
#include "cuda/host/fold_plan.hpp"
#include "cuda/host/update_operations.hpp"

namespace zeroproof::cuda {

/// host/fold_plan.hpp
using FusedFoldFn = void(const Exec& exec, const host::FoldPlan& plan,
                         Span<const host::GradStretch> operands, Span<float> sum, bool streamed);

/// host/update/product_folds.hpp
using FoldProductsFn = void(const Exec& exec, Span<const TreeNode> nodes,
                            Span<const float* const> folds, Span<float> product);

struct KernelTable : UpdateOperations {
  WidenBf16Fn* widen_bf16;
  WidenFp16Fn* widen_fp16;
  AddNodesFn* add_nodes;
  FusedFoldFn* fused_fold = nullptr;  ///< null: nodes are added two at a time, with add_nodes
  UnscaleFn* unscale;
  GradNormAccumulateFn* grad_norm_accumulate;
  GradNormExactAccumulateFn* grad_norm_exact_accumulate;
  GradAbsAccumulateFn* grad_abs_accumulate;
  GradMaxAccumulateFn* grad_max_accumulate;
  LambNormsFn* lamb_norms;
  LambTrustRatioFn* lamb_trust_ratio;
  MuonMomentumFn* muon_momentum;
  NewtonSchulzFn* newton_schulz;
  FoldProductsFn* fold_products = nullptr;  ///< of matrices that TP ranks share
  MuonStepSizeFn* muon_step_size;
  MuonUpdateFn* muon_update;
  ClipFn* clip;
  ClipValueFn* clip_value;
  CastToBf16Fn* cast_to_bf16;
  CastToFp16Fn* cast_to_fp16;
  StochasticCastToBf16Fn* stochastic_cast_to_bf16;
  // Parameters in 8 bits and their scales (R24).
  BlockAmaxFn* block_amax;
  BlockQuantizeE4m3Fn* block_quantize_e4m3;
  BlockQuantizeE5m2Fn* block_quantize_e5m2;
  BlockDequantizeE4m3Fn* block_dequantize_e4m3;
  BlockDequantizeE5m2Fn* block_dequantize_e5m2;
  CurrentScalesFn* current_scales;
  Mxfp8ScalesFn* mxfp8_scales;
  DelayedScalesFn* delayed_scales;

  /// The casts by the type of the elements; those of fp32 are copies.
  void widen(const Exec& exec, Span<const bf16> source, Span<float> target) const {
    widen_bf16(exec, source, target);
  }
  void widen(const Exec& exec, Span<const fp16> source, Span<float> target) const {
    widen_fp16(exec, source, target);
  }
  void widen(const Exec&, Span<const float> source, Span<float> target) const {
    std::ranges::copy(source, target.begin());
  }
  void narrow(const Exec& exec, Span<const float> source, Span<bf16> target) const {
    cast_to_bf16(exec, source, target);
  }
  void narrow(const Exec& exec, Span<const float> source, Span<fp16> target) const {
    cast_to_fp16(exec, source, target);
  }
  void narrow(const Exec&, Span<const float> source, Span<float> target) const {
    std::ranges::copy(source, target.begin());
  }

  void quantize(const Exec& exec, const BlockQuantization& options, std::int64_t first,
                Span<const float> values, Span<const float> scale, Span<e4m3> target) const {
    block_quantize_e4m3(exec, options, first, values, scale, target);
  }
  void quantize(const Exec& exec, const BlockQuantization& options, std::int64_t first,
                Span<const float> values, Span<const float> scale, Span<e5m2> target) const {
    block_quantize_e5m2(exec, options, first, values, scale, target);
  }
  void dequantize(const Exec& exec, const BlockGrid& grid, std::int64_t first,
                  Span<const e4m3> source, Span<const float> scale_inv, Span<float> target) const {
    block_dequantize_e4m3(exec, grid, first, source, scale_inv, target);
  }
  void dequantize(const Exec& exec, const BlockGrid& grid, std::int64_t first,
                  Span<const e5m2> source, Span<const float> scale_inv, Span<float> target) const {
    block_dequantize_e5m2(exec, grid, first, source, scale_inv, target);
  }
};

const KernelTable& host_ops();

}  // namespace zeroproof::cuda
