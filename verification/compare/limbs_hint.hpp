#pragma once

#include <string>

#include "verification/compare/hint.hpp"

namespace zeroproof::verification {

/// Compares the sums in limbs of a norm (R12: 21 words, then nan_count and inf_count): "they
/// represent 2 times the expected sum: as if everything was counted 2 times, the number of ranks".
/// "" if the sums agree.
std::string limbs_hint(const HintEvidence& evidence);

/// Name of a word of norm_limbs, with the power of two of a limb (R12): "limb 12, of weight 2^32".
/// With several clip groups, word 23 is the first limb of the second.
std::string limb_name(std::int64_t word);

}  // namespace zeroproof::verification
