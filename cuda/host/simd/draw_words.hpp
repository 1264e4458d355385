#pragma once
// Random words by Philox4x32-10 (R15), written for vectors: one group of four words per lane.
// Source of the generator: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3" (SC'11).

#include "cuda/host/simd/variant.hpp"

namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE {

// 64-bit lanes of which only the lower halves are used: the product of two lower halves is one
// instruction everywhere, while the compiler's own vectorization of the loop below is a full 64-bit
// multiplication. Upper halves may hold anything.
#if defined(__AVX512F__)
using Wide = __m512i;
inline Wide times(Wide a, Wide b) { return _mm512_mul_epu32(a, b); }
inline Wide plus(Wide a, Wide b) { return _mm512_add_epi64(a, b); }
inline Wide both(Wide a, Wide b) { return _mm512_xor_si512(a, b); }
inline Wide upper(Wide a) { return _mm512_srli_epi64(a, 32); }
inline Wide all(std::uint64_t a) { return _mm512_set1_epi64(static_cast<long long>(a)); }
inline Wide lane_groups() { return _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7); }
inline Wide joined(Wide low, Wide high) {
  return _mm512_mask_mov_epi32(low, 0xAAAA, _mm512_slli_epi64(high, 32));
}
inline void store(std::uint32_t* words, Wide first, Wide second) {
  _mm512_storeu_si512(words, _mm512_unpacklo_epi64(first, second));
  _mm512_storeu_si512(words + 16, _mm512_unpackhi_epi64(first, second));
}
#elif defined(__AVX2__)
using Wide = __m256i;
inline Wide times(Wide a, Wide b) { return _mm256_mul_epu32(a, b); }
inline Wide plus(Wide a, Wide b) { return _mm256_add_epi64(a, b); }
inline Wide both(Wide a, Wide b) { return _mm256_xor_si256(a, b); }
inline Wide upper(Wide a) { return _mm256_srli_epi64(a, 32); }
inline Wide all(std::uint64_t a) { return _mm256_set1_epi64x(static_cast<long long>(a)); }
inline Wide lane_groups() { return _mm256_setr_epi64x(0, 2, 1, 3); }
inline Wide joined(Wide low, Wide high) {
  return _mm256_blend_epi32(low, _mm256_slli_epi64(high, 32), 0xAA);
}
inline void store(std::uint32_t* words, Wide first, Wide second) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(words), _mm256_unpacklo_epi64(first, second));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(words + 8), _mm256_unpackhi_epi64(first, second));
}
#elif defined(__SSE2__)
using Wide = __m128i;
inline Wide times(Wide a, Wide b) { return _mm_mul_epu32(a, b); }
inline Wide plus(Wide a, Wide b) { return _mm_add_epi64(a, b); }
inline Wide both(Wide a, Wide b) { return _mm_xor_si128(a, b); }
inline Wide upper(Wide a) { return _mm_srli_epi64(a, 32); }
inline Wide all(std::uint64_t a) { return _mm_set1_epi64x(static_cast<long long>(a)); }
inline Wide lane_groups() { return _mm_set_epi64x(1, 0); }
inline Wide joined(Wide low, Wide high) {
  return _mm_or_si128(_mm_and_si128(low, all(0xFFFFFFFFU)), _mm_slli_epi64(high, 32));
}
inline void store(std::uint32_t* words, Wide first, Wide second) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(words), _mm_unpacklo_epi64(first, second));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(words + 4), _mm_unpackhi_epi64(first, second));
}
#else
using Wide = std::uint64_t;
inline Wide times(Wide a, Wide b) { return (a & 0xFFFFFFFFU) * (b & 0xFFFFFFFFU); }
inline Wide plus(Wide a, Wide b) { return a + b; }
inline Wide both(Wide a, Wide b) { return a ^ b; }
inline Wide upper(Wide a) { return a >> 32; }
inline Wide all(std::uint64_t a) { return a; }
inline Wide lane_groups() { return 0; }
inline Wide joined(Wide low, Wide high) { return (low & 0xFFFFFFFFU) | high << 32; }
inline void store(std::uint32_t* words, Wide first, Wide second) {
  words[0] = static_cast<std::uint32_t>(first);
  words[1] = static_cast<std::uint32_t>(first >> 32);
  words[2] = static_cast<std::uint32_t>(second);
  words[3] = static_cast<std::uint32_t>(second >> 32);
}
#endif

inline constexpr int philox_rounds = 10;
inline constexpr int drawn_words = 256;  // at once; they stay in the first-level cache

struct RoundKeys {
  std::uint32_t low[philox_rounds], high[philox_rounds];
};

inline RoundKeys round_keys(std::uint64_t seed) {
  RoundKeys keys;
  std::uint32_t low = static_cast<std::uint32_t>(seed);
  std::uint32_t high = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < philox_rounds; ++round) {
    keys.low[round] = low;
    keys.high[round] = high;
    low += 0x9E3779B9U;
    high += 0xBB67AE85U;
  }
  return keys;
}

/// words[4 g + w] = word w of group first + g, for drawn_words / 4 groups. The lanes hold the
/// groups in the order in which store() interleaves them.
inline void draw_words(const RoundKeys& keys, std::uint32_t stream, std::uint32_t step,
                       std::uint64_t first, std::uint32_t* words) {
  constexpr int lanes = sizeof(Wide) / sizeof(std::uint64_t);
  for (int g = 0; g < drawn_words / 4; g += lanes) {
    Wide c0 = plus(all(first + static_cast<std::uint64_t>(g)), lane_groups());
    Wide c1 = upper(c0);
    Wide c2 = all(step);
    Wide c3 = all(stream);
    for (int round = 0; round < philox_rounds; ++round) {
      const Wide product0 = times(c0, all(0xD2511F53U));
      const Wide product1 = times(c2, all(0xCD9E8D57U));
      c0 = both(both(upper(product1), c1), all(keys.low[round]));
      c2 = both(both(upper(product0), c3), all(keys.high[round]));
      c1 = product1;
      c3 = product0;
    }
    store(words + 4 * g, joined(c0, c1), joined(c2, c3));
  }
}

}  // namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE
