#pragma once

#include "common/contracts/grad_sum.hpp"
#include "cuda/host/fold_plan.hpp"

namespace zeroproof::cuda::host {

AddNodesFn add_nodes;
MaximalNodesFn maximal_nodes;
GradSumFn grad_sum;

/// sum = the operands, added as the plan says, in one pass over memory.
///
/// Shapes   operands: num_nodes of the plan, each [numel of sum] fp32, bf16 or fp16. sum may be the memory of one of
///          them, unless it is streamed, that is written past the caches; nothing else overlaps.
/// Errors   invalid_argument if the plan has another number of nodes.
void fused_fold(const Exec& exec, const FoldPlan& plan, Span<const GradStretch> operands, Span<float> sum,
                bool streamed);

}  // namespace zeroproof::cuda::host
