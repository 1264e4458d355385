#pragma once
// Limbs as a buffer of 23 words: the 21 limbs, nan_count, inf_count.

#include "common/contracts/grad_norm.hpp"
#include "verification/ops/op.hpp"

namespace zeroproof::verification {

inline constexpr std::size_t limb_words = 23;

NormLimbs get_limbs(Span<const std::uint64_t> words);
void put_limbs(const NormLimbs& limbs, Span<std::uint64_t> words);

/// The initial limbs of an accumulation: zero, except for variant 1.
NormLimbs initial_limbs(int variant);

/// A run of filled limbs at any height, sometimes with carries above 32 bits, halfway patterns,
/// counts: the 23 words of element `index`, made from words of operand 0, limb_words + 1 blocks
/// from `first_block` on.
void draw_limb_set(const OpCall& call, std::int64_t index, std::uint32_t first_block,
                   Span<std::uint64_t> words);

/// One such set for every element: operand 0.
void draw_limbs(OpCall& call);

/// Operand 1 (double): the result of the implementation for each set of limbs of operand 0.
OpFunction run_limbs_finish(GradNormFinishFn* implementation);

/// An accumulation with the variants "from zero", "onto limbs", "two pieces" (cut at a multiple of `cut_at`). Carries
/// are free before normalisation, so the limbs are compared after it.
OpFunction run_accumulate(GradNormAccumulateFn* implementation, GradNormNormaliseFn* normalise,
                          std::size_t cut_at);

}  // namespace zeroproof::verification
