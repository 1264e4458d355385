// The table of one instruction set.

#include "cuda/host/simd/layer_kernels.hpp"

#include "cuda/host/simd/layer_variant.hpp"

namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE {

extern const LayerKernels layer_table;
const LayerKernels layer_table = {rms_norm,     layer_norm,  norm_backward, norm_column_sums,     column_sums,
                                  fold_columns, weight_grad, bias_dropout,  bias_dropout_backward};

}  // namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE
