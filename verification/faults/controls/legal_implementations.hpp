#pragma once
// Correct implementations that differ from the reference and from production.

#include "common/contracts/grad_norm.hpp"
#include "verification/ops/limb_words.hpp"

namespace zeroproof::verification {

/// AdamW of the contract with swapped operands in every + and *.
void swapped_adamw(OpCall& call);

/// Chunk sum of R12 with fused multiply-add (R7). chunk: [1..1024].
double chunk_sum_with_fma(Span<const float> chunk);

/// Adds a chunk sum to limbs (R12).
void deposit_chunk(double sum, NormLimbs& limbs);

/// Carries one unit of every nonzero limb into the limb below, which changes no value; returns the
/// number of carries.
std::int64_t leave_carries(NormLimbs& limbs);

}  // namespace zeroproof::verification
