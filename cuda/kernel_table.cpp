#include "cuda/kernel_table.hpp"
#include "cuda/host/fold_plan.hpp"
#include "cuda/host/operations.hpp"
#include "cuda/host/update/product_folds.hpp"

namespace zeroproof::cuda {

const KernelTable& host_ops() {
  static constexpr KernelTable ops = [] {
    KernelTable all{};
    static_cast<UpdateOperations&>(all) = host_updates;
    all.widen_bf16 = host::widen_bf16;
    all.widen_fp16 = host::widen_fp16;
    all.add_nodes = host::add_nodes;
    all.fused_fold = host::fused_fold;
    all.unscale = host::unscale;
    all.grad_norm_accumulate = host::grad_norm_accumulate;
    all.grad_norm_exact_accumulate = host::grad_norm_exact_accumulate;
    all.grad_abs_accumulate = host::grad_abs_accumulate;
    all.grad_max_accumulate = host::grad_max_accumulate;
    all.lamb_norms = host::lamb_norms;
    all.lamb_trust_ratio = host::lamb_trust_ratio;
    all.muon_momentum = host::muon_momentum;
    all.newton_schulz = host::newton_schulz;
    all.fold_products = host::fold_products;
    all.muon_step_size = host::muon_step_size;
    all.muon_update = host::muon_update;
    all.clip = host::clip;
    all.clip_value = host::clip_value;
    all.cast_to_bf16 = host::cast_to_bf16;
    all.cast_to_fp16 = host::cast_to_fp16;
    all.stochastic_cast_to_bf16 = host::stochastic_cast_to_bf16;
    all.block_amax = host::block_amax;
    all.block_quantize_e4m3 = host::block_quantize_e4m3;
    all.block_quantize_e5m2 = host::block_quantize_e5m2;
    all.block_dequantize_e4m3 = host::block_dequantize_e4m3;
    all.block_dequantize_e5m2 = host::block_dequantize_e5m2;
    all.current_scales = host::current_scales;
    all.mxfp8_scales = host::mxfp8_scales;
    all.delayed_scales = host::delayed_scales;
    return all;
  }();
  return ops;
}

}  // namespace zeroproof::cuda
