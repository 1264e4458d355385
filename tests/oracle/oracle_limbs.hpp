#pragma once
// The oracle's sums in the limbs of the contract.

#include <bit>
#include <cstdint>

#include "common/contracts/grad_norm.hpp"
#include "oracle.h"

namespace zeroproof::oracle {

inline NormLimbs to_limbs(const oracle_sum& sum) {
  NormLimbs limbs;
  oracle_norm_limbs(&sum, limbs.limbs.data());
  limbs.nan_count = sum.nan_count;
  limbs.inf_count = sum.inf_count;
  return limbs;
}

inline NormLimbs to_limbs(const oracle_exact& sum) {
  NormLimbs limbs;
  oracle_exact_limbs(&sum, limbs.limbs.data());
  limbs.nan_count = sum.nan_count;
  limbs.inf_count = sum.inf_count;
  return limbs;
}

/// The bits of a norm, all NaNs the same (R9).
inline std::uint64_t norm_bits(double norm) {
  return norm != norm ? 0x7FFFFFFFFFFFFFFFU : std::bit_cast<std::uint64_t>(norm);
}

}  // namespace zeroproof::oracle
