// Compiled once per instruction set, with ZP_ISA_NAMESPACE naming the variant.

#include "verification/bench/limit_loops.hpp"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace zeroproof::verification::bench::ZP_ISA_NAMESPACE {
namespace {

/// Elements that pass through the first-level cache on their way to a streamed store.
constexpr std::int64_t staging = 1024;

inline std::uint32_t bits_of(float value) { return __builtin_bit_cast(std::uint32_t, value); }
inline float float_of(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }
inline float mixed(float x, float y, std::uint32_t mask) {
  return float_of(bits_of(x) ^ (bits_of(y) & mask));
}
inline std::uint16_t high_half(float x) { return static_cast<std::uint16_t>(bits_of(x) >> 16); }

std::uint32_t read(const float* a, std::int64_t numel) {
  std::uint32_t all = 0;
  for (std::int64_t i = 0; i < numel; ++i) all ^= bits_of(a[i]);
  return all;
}

std::uint32_t not_finite(const float* a, std::int64_t numel) {
  std::uint32_t found = 0;
  for (std::int64_t i = 0; i < numel; ++i) found |= (bits_of(a[i]) & 0x7F800000U) == 0x7F800000U ? 1U : 0U;
  return found;
}

void in_place(std::uint32_t mask, float* a, std::int64_t numel) {
  for (std::int64_t i = 0; i < numel; ++i) a[i] = mixed(a[i], a[i], mask);
}

void add(std::uint32_t mask, float* __restrict a, const float* __restrict b, std::int64_t numel) {
  for (std::int64_t i = 0; i < numel; ++i) a[i] = mixed(a[i], b[i], mask);
}

void narrow(const float* __restrict a, std::uint16_t* __restrict half, std::int64_t numel) {
  for (std::int64_t i = 0; i < numel; ++i) half[i] = high_half(a[i]);
}

void adam(std::uint32_t mask, const float* __restrict g, float* __restrict p, float* __restrict m,
          float* __restrict v, std::int64_t numel) {
  for (std::int64_t i = 0; i < numel; ++i) {
    p[i] = mixed(p[i], g[i], mask);
    m[i] = mixed(m[i], g[i], mask);
    v[i] = mixed(v[i], g[i], mask);
  }
}

void step(std::uint32_t mask, const float* __restrict g, float* __restrict p, float* __restrict m,
          float* __restrict v, std::uint16_t* __restrict half, std::int64_t numel) {
  for (std::int64_t i = 0; i < numel; ++i) {
    p[i] = mixed(p[i], g[i], mask);
    m[i] = mixed(m[i], g[i], mask);
    v[i] = mixed(v[i], g[i], mask);
    half[i] = high_half(p[i]);
  }
}

/// Copies numel values, a multiple of 32, to a 64-byte aligned target without reading its lines first.
inline void stream(const std::uint16_t* from, std::uint16_t* to, std::int64_t numel) {
#if defined(__AVX512F__)
  for (std::int64_t i = 0; i < numel; i += 32) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i), _mm512_loadu_si512(from + i));
  }
#elif defined(__SSE2__)
  for (std::int64_t i = 0; i < numel; i += 8) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)));
  }
#else
  __builtin_memcpy(to, from, static_cast<std::size_t>(numel) * 2);
#endif
}

/// Streamed stores are weakly ordered; nobody may read the target before this.
inline void stream_end() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

void narrow_streamed(const float* a, std::uint16_t* half, std::int64_t numel) {
  alignas(64) std::uint16_t stage[staging];
  for (std::int64_t begin = 0; begin < numel; begin += staging) {
    narrow(a + begin, stage, staging);
    stream(stage, half + begin, staging);
  }
  stream_end();
}

void step_streamed(std::uint32_t mask, const float* g, float* p, float* m, float* v, std::uint16_t* half,
                   std::int64_t numel) {
  alignas(64) std::uint16_t stage[staging];
  for (std::int64_t begin = 0; begin < numel; begin += staging) {
    step(mask, g + begin, p + begin, m + begin, v + begin, stage, staging);
    stream(stage, half + begin, staging);
  }
  stream_end();
}

}  // namespace

extern const LimitLoops loops;
const LimitLoops loops = {read, in_place, add,           narrow,    narrow_streamed,
                          adam, step,     step_streamed, not_finite};

}  // namespace zeroproof::verification::bench::ZP_ISA_NAMESPACE
