#pragma once
// Gradients of tensors replicated on every TP rank: each rank has a part of the gradient, and all
// need the sum (R11).

#include "cuda/comm/exchange/bucket_plan.hpp"
#include "cuda/reduce/reduce_tools.hpp"

namespace zeroproof::cuda {

/// The gradient of a bucket with the parts of all TP ranks added: the gradient itself if there are
/// none, otherwise fp32 in GradMemory::tp_sum, until the next call. Collective over the TP ranks if
/// the bucket has such tensors.
/// leaf: [bucket numel] in the gradient dtype.
NodeValues with_tp_parts(const ReduceTools& tools, const BucketPlan& plan, const TensorView& leaf);

/// The dtype returned by with_tp_parts, and used in messages.
DType travelling_dtype(const OptimizerSetup& setup, const BucketPlan& plan);

}  // namespace zeroproof::cuda
