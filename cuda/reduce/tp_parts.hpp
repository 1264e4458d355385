#pragma once
// Leaves of tensors that every TP rank has whole: each rank has a part of the gradient, and all need the sum (R11).

#include "cuda/comm/exchange/bucket_plan.hpp"
#include "cuda/reduce/reduce_tools.hpp"

namespace zeroproof::cuda {

/// The leaf of a bucket with the parts of all TP ranks in it: the leaf itself if there are none, otherwise fp32 in
/// GradMemory::tp_sum, until the next call. Collective over the TP ranks if the bucket has such tensors.
/// leaf: [bucket numel] in the gradient dtype.
NodeValues with_tp_parts(const ReduceTools& tools, const BucketPlan& plan, const TensorView& leaf);

/// What with_tp_parts returns, and leaves travel as.
DType travelling_dtype(const OptimizerSetup& setup, const BucketPlan& plan);

}  // namespace zeroproof::cuda
