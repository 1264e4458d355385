// The table of one instruction set.

#include "cuda/host/simd/layer_kernels.hpp"

#include "cuda/host/simd/layer_variant.hpp"

namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE {

extern const LayerKernels layer_table;
const LayerKernels layer_table = {causal_softmax,
                                  causal_softmax_backward,
                                  masked_softmax,
                                  masked_softmax_backward,
                                  sink_softmax,
                                  sink_softmax_backward,
                                  sum_of_head,
                                  cross_entropy_max,
                                  cross_entropy_sum,
                                  cross_entropy_loss,
                                  cross_entropy_backward,
                                  rms_norm,
                                  layer_norm,
                                  norm_backward,
                                  norm_column_sums,
                                  column_sums,
                                  fold_columns,
                                  weight_grad,
                                  bias_dropout,
                                  bias_dropout_backward};

}  // namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE
