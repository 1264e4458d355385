// Compiled once per instruction set, with ZP_ISA_NAMESPACE naming the variant.

#include "verification/bench/limit_loops.hpp"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace zeroproof::verification::bench::ZP_ISA_NAMESPACE {
namespace {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using i64 = std::int64_t;

/// Elements that pass through the first-level cache on their way to a streamed store.
constexpr i64 staging = 1024;

inline u32 bits_of(float value) { return __builtin_bit_cast(u32, value); }
inline float float_of(u32 bits) { return __builtin_bit_cast(float, bits); }
inline float mixed(float x, float y, u32 mask) {
  return float_of(bits_of(x) ^ (bits_of(y) & mask));
}

inline void convert(float from, u16& to) { to = static_cast<u16>(bits_of(from) >> 16); }
inline void convert(float from, u8& to) { to = static_cast<u8>(bits_of(from) >> 24); }
inline void convert(float from, float& to) { to = from; }
inline void convert(u16 from, float& to) { to = float_of(u32{from} << 16); }
inline void convert(u8 from, float& to) { to = float_of(u32{from} << 24); }

u32 read(const LimitBuffers& b, u32, i64 begin, i64 numel) {
  const float* a = b.grad + begin;
  u32 all = 0;
  for (i64 i = 0; i < numel; ++i) all ^= bits_of(a[i]);
  return all;
}

u32 read16(const LimitBuffers& b, u32, i64 begin, i64 numel) {
  const u16* a = b.grad16 + begin;
  u16 all = 0;
  for (i64 i = 0; i < numel; ++i) all = static_cast<u16>(all ^ a[i]);
  return all;
}

u32 in_place(const LimitBuffers& b, u32 mask, i64 begin, i64 numel) {
  float* a = b.work + begin;
  for (i64 i = 0; i < numel; ++i) a[i] = mixed(a[i], a[i], mask);
  return 0;
}

template <class From, class To>
void cast(const From* __restrict from, To* __restrict to, i64 numel) {
  for (i64 i = 0; i < numel; ++i) convert(from[i], to[i]);
}

/// `states` arrays are read and written, the gradient is read; `cast_too`: the first array is narrowed.
template <int states, bool cast_too, class Grad>
void update(u32 mask, const Grad* __restrict g, float* __restrict p, float* __restrict m,
            float* __restrict v, float* __restrict x, u16* __restrict half, i64 numel) {
  for (i64 i = 0; i < numel; ++i) {
    float wide;
    convert(g[i], wide);
    p[i] = mixed(p[i], wide, mask);
    if constexpr (states > 1) m[i] = mixed(m[i], wide, mask);
    if constexpr (states > 2) v[i] = mixed(v[i], wide, mask);
    if constexpr (states > 3) x[i] = mixed(x[i], wide, mask);
    if constexpr (cast_too) convert(p[i], half[i]);
  }
}

/// Copies num_bytes, a multiple of 64, to a 64-byte aligned target without reading its lines first.
inline void stream(const void* from, void* to, i64 num_bytes) {
  const char* source = static_cast<const char*>(from);
  char* target = static_cast<char*>(to);
#if defined(__AVX512F__)
  for (i64 i = 0; i < num_bytes; i += 64) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(target + i), _mm512_loadu_si512(source + i));
  }
#elif defined(__SSE2__)
  for (i64 i = 0; i < num_bytes; i += 16) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(target + i),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i)));
  }
#else
  __builtin_memcpy(target, source, num_bytes);
#endif
}

/// Calls make(begin, stage) for `staging` elements at a time and streams the result. Streamed
/// stores are weakly ordered: the target may be read after this only.
template <class T, class Make>
inline void staged(T* target, i64 numel, const Make& make) {
  alignas(64) T stage[staging];
  for (i64 begin = 0; begin < numel; begin += staging) {
    make(begin, stage);
    stream(stage, target + begin, staging * static_cast<i64>(sizeof(T)));
  }
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

inline const float* wide(const LimitBuffers& b) { return b.grad; }
inline float* work(const LimitBuffers& b) { return b.work; }
inline const u16* narrow(const LimitBuffers& b) { return b.grad16; }
inline u16* half(const LimitBuffers& b) { return b.half; }
inline u8* byte(const LimitBuffers& b) { return b.byte; }

template <auto from, auto to, bool streamed>
u32 cast_loop(const LimitBuffers& b, u32, i64 begin, i64 numel) {
  const auto* source = from(b) + begin;
  auto* target = to(b) + begin;
  if constexpr (streamed) {
    staged(target, numel, [&](i64 at, auto* stage) { cast(source + at, stage, staging); });
  } else {
    cast(source, target, numel);
  }
  return 0;
}

template <int states, auto grad>
u32 update_loop(const LimitBuffers& b, u32 mask, i64 begin, i64 numel) {
  float* const* s = b.state;
  update<states, false>(mask, grad(b) + begin, s[0] + begin, s[1] + begin, s[2] + begin,
                        states > 3 ? s[3] + begin : nullptr, nullptr, numel);
  return 0;
}

template <auto grad>
u32 add_loop(const LimitBuffers& b, u32 mask, i64 begin, i64 numel) {
  update<1, false>(mask, grad(b) + begin, b.work + begin, nullptr, nullptr, nullptr, nullptr,
                   numel);
  return 0;
}

template <auto grad, bool streamed>
u32 step_loop(const LimitBuffers& b, u32 mask, i64 begin, i64 numel) {
  const auto* g = grad(b) + begin;
  float *p = b.state[0] + begin, *m = b.state[1] + begin, *v = b.state[2] + begin;
  if constexpr (streamed) {
    staged(b.half + begin, numel, [&](i64 at, u16* stage) {
      update<3, true>(mask, g + at, p + at, m + at, v + at, nullptr, stage, staging);
    });
  } else {
    update<3, true>(mask, g, p, m, v, nullptr, b.half + begin, numel);
  }
  return 0;
}

constexpr LimitLoop table[] = {{"R", false, false, 4, read},
                               {"RW", false, false, 8, in_place},
                               {"2R1W", false, false, 12, add_loop<wide>},
                               {"R4W2", false, false, 6, cast_loop<wide, half, false>},
                               {"R4W2", true, false, 6, cast_loop<wide, half, true>},
                               {"R4W1", false, false, 5, cast_loop<wide, byte, false>},
                               {"R4W1", true, false, 5, cast_loop<wide, byte, true>},
                               {"R1W4", false, false, 5, cast_loop<byte, work, false>},
                               {"R1W4", true, false, 5, cast_loop<byte, work, true>},
                               {"R2W4", false, false, 6, cast_loop<half, work, false>},
                               {"R2W4", true, false, 6, cast_loop<half, work, true>},
                               {"3R2W", false, false, 20, update_loop<2, wide>},
                               {"5R4W", false, false, 36, update_loop<4, wide>},
                               {"4R3W", false, false, 28, update_loop<3, wide>},
                               {"4R3W+W2", false, false, 30, step_loop<wide, false>},
                               {"4R3W+W2", true, false, 30, step_loop<wide, true>},
                               {"R2", false, true, 2, read16},
                               {"R2+RW", false, true, 10, add_loop<narrow>},
                               {"R2+3R3W+W2", false, true, 28, step_loop<narrow, false>},
                               {"R2+3R3W+W2", true, true, 28, step_loop<narrow, true>}};

#if defined(__AVX512F__)
using Lanes = __m512;
inline Lanes multiplied_and_added(Lanes x, Lanes y, Lanes s) { return _mm512_fmadd_ps(x, y, s); }
#elif defined(__FMA__)
using Lanes = __m256;
inline Lanes multiplied_and_added(Lanes x, Lanes y, Lanes s) { return _mm256_fmadd_ps(x, y, s); }
#else
typedef float Lanes __attribute__((vector_size(16)));  // NOLINT(modernize-use-using)
inline Lanes multiplied_and_added(Lanes x, Lanes y, Lanes s) { return x * y + s; }
#endif

float chains(i64 count) {
  constexpr int independent = 10;
  constexpr i64 lanes = sizeof(Lanes) / sizeof(float);
  const Lanes x = Lanes{} + 0.5F, y = Lanes{} + 1.5F;  // every chain converges
  Lanes sums[independent];
  for (int c = 0; c < independent; ++c) sums[c] = x + static_cast<float>(c);  // no two are one
  for (i64 i = 0; i < count; i += independent * lanes) {
    for (int c = 0; c < independent; ++c) sums[c] = multiplied_and_added(sums[c], x, y);
  }
  for (int c = 1; c < independent; ++c) sums[0] = sums[0] + sums[c];
  return sums[0][0];
}

}  // namespace

extern const Span<const LimitLoop> loops;
const Span<const LimitLoop> loops = table;
extern float (*const multiply_and_add)(i64);
float (*const multiply_and_add)(i64) = chains;

}  // namespace zeroproof::verification::bench::ZP_ISA_NAMESPACE
