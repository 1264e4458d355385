// Compiled once per instruction set, with ZP_ISA_NAMESPACE naming the variant.

#include "verification/bench/measure/limit_loops.hpp"

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

void narrow8(const float* __restrict a, std::uint8_t* __restrict byte, std::int64_t numel) {
  for (std::int64_t i = 0; i < numel; ++i) byte[i] = static_cast<std::uint8_t>(bits_of(a[i]) >> 24);
}

void widen8(const std::uint8_t* __restrict byte, float* __restrict a, std::int64_t numel) {
  for (std::int64_t i = 0; i < numel; ++i) a[i] = float_of(std::uint32_t{byte[i]} << 24);
}

void widen16(const std::uint16_t* __restrict half, float* __restrict a, std::int64_t numel) {
  for (std::int64_t i = 0; i < numel; ++i) a[i] = float_of(std::uint32_t{half[i]} << 16);
}

void momentum(std::uint32_t mask, const float* __restrict g, float* __restrict p, float* __restrict m,
              std::int64_t numel) {
  for (std::int64_t i = 0; i < numel; ++i) {
    p[i] = mixed(p[i], g[i], mask);
    m[i] = mixed(m[i], g[i], mask);
  }
}

void amsgrad(std::uint32_t mask, const float* __restrict g, float* __restrict p, float* __restrict m,
             float* __restrict v, float* __restrict x, std::int64_t numel) {
  for (std::int64_t i = 0; i < numel; ++i) {
    p[i] = mixed(p[i], g[i], mask);
    m[i] = mixed(m[i], g[i], mask);
    v[i] = mixed(v[i], g[i], mask);
    x[i] = mixed(x[i], g[i], mask);
  }
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

std::uint32_t read16(const std::uint16_t* g, std::int64_t numel) {
  std::uint16_t all = 0;
  for (std::int64_t i = 0; i < numel; ++i) all = static_cast<std::uint16_t>(all ^ g[i]);
  return all;
}

inline float widened(std::uint16_t half) { return float_of(std::uint32_t{half} << 16); }

void add16(std::uint32_t mask, float* __restrict a, const std::uint16_t* __restrict g, std::int64_t numel) {
  for (std::int64_t i = 0; i < numel; ++i) a[i] = mixed(a[i], widened(g[i]), mask);
}

void step16(std::uint32_t mask, const std::uint16_t* __restrict g, float* __restrict p, float* __restrict m,
            float* __restrict v, std::uint16_t* __restrict half, std::int64_t numel) {
  for (std::int64_t i = 0; i < numel; ++i) {
    const float wide = widened(g[i]);
    p[i] = mixed(p[i], wide, mask);
    m[i] = mixed(m[i], wide, mask);
    v[i] = mixed(v[i], wide, mask);
    half[i] = high_half(p[i]);
  }
}

/// Copies num_bytes, a multiple of 64, to a 64-byte aligned target without reading its lines first.
inline void stream(const void* from, void* to, std::int64_t num_bytes) {
  const char* source = static_cast<const char*>(from);
  char* target = static_cast<char*>(to);
#if defined(__AVX512F__)
  for (std::int64_t i = 0; i < num_bytes; i += 64) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(target + i), _mm512_loadu_si512(source + i));
  }
#elif defined(__SSE2__)
  for (std::int64_t i = 0; i < num_bytes; i += 16) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(target + i),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i)));
  }
#else
  __builtin_memcpy(target, source, static_cast<std::size_t>(num_bytes));
#endif
}

/// Streamed stores are weakly ordered; nobody may read the target before this.
inline void stream_end() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

/// Any loop that makes a target from a source, `staging` elements at a time.
template <class Source, class Target>
inline void staged(void (*loop)(const Source*, Target*, std::int64_t), const Source* source, Target* target,
                   std::int64_t numel) {
  alignas(64) Target stage[staging];
  for (std::int64_t begin = 0; begin < numel; begin += staging) {
    loop(source + begin, stage, staging);
    stream(stage, target + begin, staging * static_cast<std::int64_t>(sizeof(Target)));
  }
  stream_end();
}

void narrow_streamed(const float* a, std::uint16_t* half, std::int64_t numel) {
  staged(narrow, a, half, numel);
}
void narrow8_streamed(const float* a, std::uint8_t* byte, std::int64_t numel) {
  staged(narrow8, a, byte, numel);
}
void widen8_streamed(const std::uint8_t* byte, float* a, std::int64_t numel) {
  staged(widen8, byte, a, numel);
}
void widen16_streamed(const std::uint16_t* half, float* a, std::int64_t numel) {
  staged(widen16, half, a, numel);
}

/// A step over gradients of either width.
template <class Grad>
inline void staged_step(void (*loop)(std::uint32_t, const Grad*, float*, float*, float*, std::uint16_t*,
                                     std::int64_t),
                        std::uint32_t mask, const Grad* g, float* p, float* m, float* v, std::uint16_t* half,
                        std::int64_t numel) {
  alignas(64) std::uint16_t stage[staging];
  for (std::int64_t begin = 0; begin < numel; begin += staging) {
    loop(mask, g + begin, p + begin, m + begin, v + begin, stage, staging);
    stream(stage, half + begin, staging * 2);
  }
  stream_end();
}

void step_streamed(std::uint32_t mask, const float* g, float* p, float* m, float* v, std::uint16_t* half,
                   std::int64_t numel) {
  staged_step(step, mask, g, p, m, v, half, numel);
}

void step16_streamed(std::uint32_t mask, const std::uint16_t* g, float* p, float* m, float* v,
                     std::uint16_t* half, std::int64_t numel) {
  staged_step(step16, mask, g, p, m, v, half, numel);
}

}  // namespace

extern const LimitLoops loops;
const LimitLoops loops = {read,
                          in_place,
                          add,
                          narrow,
                          narrow_streamed,
                          narrow8,
                          narrow8_streamed,
                          widen8,
                          widen8_streamed,
                          widen16,
                          widen16_streamed,
                          momentum,
                          adam,
                          amsgrad,
                          step,
                          step_streamed,
                          read16,
                          add16,
                          step16,
                          step16_streamed,
                          not_finite};

}  // namespace zeroproof::verification::bench::ZP_ISA_NAMESPACE
