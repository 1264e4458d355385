#pragma once
// Ways to be right that neither the reference nor the production code takes.

#include "common/contracts/grad_norm.hpp"
#include "verification/ops/limb_words.hpp"

namespace zeroproof::verification {

/// AdamW as the contract has it, with the operands of every + and * the other way round.
void swapped_adamw(OpCall& call);

/// Chunk sum of R12 with fused multiply-add (R7). chunk: [1..1024].
double chunk_sum_with_fma(Span<const float> chunk);

/// Adds a chunk sum to limbs (R12).
void deposit_chunk(double sum, NormLimbs& limbs);

/// Moves one unit of every limb that has one down into the limb below, which changes no value; returns how many moved.
std::int64_t leave_carries(NormLimbs& limbs);

}  // namespace zeroproof::verification
