#pragma once
// Expected norms of the device implementations: results of the oracle for a tensor.

#include <cstdint>

#include "common/contracts/grad_norm.hpp"
#include "oracle_limbs.hpp"
#include "tests/cuda/device_place.hpp"

namespace zeroproof::device_test {

/// chunk1024
inline NormLimbs expected_chunks(Span<const float> grad) {
  oracle_sum sum;
  oracle_norm_clear(&sum);
  oracle_norm_add(&sum, grad.data(), grad.size());
  return oracle::to_limbs(sum);
}

/// exact: oracle_exact_add_squares, one: oracle_exact_add_magnitudes
inline NormLimbs expected_exact(void (*add)(oracle_exact*, const float*, std::size_t),
                                Span<const float> grad) {
  oracle_exact sum;
  oracle_exact_clear(&sum);
  add(&sum, grad.data(), grad.size());
  return oracle::to_limbs(sum);
}

inline void normalise(NormLimbs& limbs) {
  for (std::size_t i = 0; i + 1 < limbs.limbs.size(); ++i) {
    limbs.limbs[i + 1] += limbs.limbs[i] >> 32;
    limbs.limbs[i] &= 0xFFFFFFFFULL;
  }
}

}  // namespace zeroproof::device_test
