#pragma once

// Exact sums of fp64 magnitudes (R12, [Norm:limbs]), for the norm of a gradient and dot products.

#include <cstdint>

#include "common/contracts/grad_norm.hpp"

namespace zeroproof::reference {

inline constexpr int lowest_weight = -352;  ///< limb 0 counts units of 2^-352
inline constexpr std::uint64_t digit_mask = 0xFFFFFFFFU;

/// Adds a magnitude exactly: 0, a normal fp64 from 2^-298 up and below 2^266, infinity or NaN.
/// Infinity and NaN are counted separately. Limbs take 2^32 - 1 deposits between two normalisations
/// [Norm:carry].
void deposit(double magnitude, NormLimbs& limbs);

}  // namespace zeroproof::reference
