#pragma once

#include <array>
#include <cstdint>

#include "common/base/exec.hpp"
#include "common/base/span.hpp"

namespace zeroproof {

/// Constants of the sequences below (R23).
namespace elementary {

inline constexpr double log2_e = 0x1.71547652b82fep+0;
/// ln 2 in two parts; the first has 33 significant bits, so that its product with a small integer is exact.
inline constexpr double ln2_high = 0x1.62e42fee00000p-1;
inline constexpr double ln2_low = 0x1.a39ef35793c76p-33;
/// Added to a number below 2^51 in magnitude, it rounds it to an integer, ties to even.
inline constexpr double round_shift = 0x1.8p52;
/// sqrt(1/2) as bits: log uses significands from there up to below sqrt(2).
inline constexpr std::uint64_t sqrt_half_bits = 0x3FE6A09E667F3BCDU;

/// erf(a) = a + a * (c[0] + c[1] z + ... + c[12] z^12), z = a^2, for a below 1.
inline constexpr std::array<double, 13> erf_small = {
    0x1.06eba8214db69p-3,  -0x1.812746b0379e6p-2,  0x1.ce2f21a042b30p-4,  -0x1.b82ce31284e00p-6,
    0x1.565bcd0dbaa38p-8,  -0x1.c02db3dac435fp-11, 0x1.f9a321d5b8e1ep-14, -0x1.f4d1e3183f7aep-17,
    0x1.b9df224ca4b97p-20, -0x1.5f1ecb6f0764cp-23, 0x1.f7b4bf3b13964p-27, -0x1.389d4f2641625p-30,
    0x1.05ffd737fb32ep-34};

/// erf(a) = c[0] + c[1] d + ... + c[20] d^20, d = a - 1.75, for a from 1 to below 2.5.
inline constexpr std::array<double, 21> erf_middle = {
    0x1.f92d077f8d56dp-1,   0x1.b055303221017p-5,   -0x1.7a4a8a2bdce16p-4,  0x1.7148c3d57c2bdp-4,
    -0x1.8a0da54305dcdp-5,  0x1.b22257dd0db88p-8,   0x1.25b378c908879p-7,   -0x1.8d10fb6c584d7p-8,
    0x1.7ec1d1fe31574p-11,  0x1.d4cf0b11eb847p-11,  -0x1.d041f177832c1p-12, -0x1.6d717ced9e7e1p-18,
    0x1.2007e90d9e8f5p-14,  -0x1.294cba95aeb4ap-16, -0x1.3678042da656fp-18, 0x1.b74b5e5ab82e5p-19,
    -0x1.7660096101b26p-23, -0x1.5c658dc3372bdp-22, 0x1.51bccb389fb3ep-24,  0x1.28ab7e0f752aap-26,
    -0x1.1eaacd9b69effp-27};

/// The same with d = a - 3.25, for a from 2.5 to 4.
inline constexpr std::array<double, 21> erf_large = {
    0x1.ffff6f9f67e55p-1,   0x1.e9b5e8d00cae8p-16,  -0x1.8de3cd290a761p-14, 0x1.9aa489e3ce718p-13,
    -0x1.2c7d5ef054ad3p-12, 0x1.490a4d22c9294p-12,  -0x1.145464ea0b4a1p-12, 0x1.647f7225a069dp-13,
    -0x1.567479d18608fp-14, 0x1.b2c31d382c5dbp-16,  -0x1.3893324fb5e2ep-19, -0x1.80700ea33a707p-19,
    0x1.ff31c51ae27b7p-20,  -0x1.265cc3f7c4372p-21, 0x1.d8a354c5a2453p-29,  0x1.1db75f742901fp-24,
    -0x1.d732db1b43c80p-26, 0x1.97b20b810b414p-29,  0x1.f09436dce5e41p-30,  -0x1.a62f23be16354p-31,
    0x1.2162eac230cdcp-34};

}  // namespace elementary

/// exp(x), correctly rounded.
///
/// Shapes   x, y: [numel], numel >= 0; the same buffer, or no overlap.
/// Order    y is the fp32 value nearest to the real exp(x) (R23). This sequence computes it for every x, in fp64,
///          one rounding per operation:
///            z = x, but -105 below -105 and 89 above 89
///            t = z * log2_e + round_shift;  n = t - round_shift;  r = (z - n * ln2_high) - n * ln2_low
///            p = 1/13!;  for k = 12, 11, ..., 1:  p = p * r + 1/k!        (each 1/k! rounded once)
///            q = r * p;  e = 2^n * (1 + q);  y = fp32(e)
///          below, reduced(z) is (n, q) of the second and third line, for any z.
/// Exact    bitwise.
/// Special  NaN gives NaN; +infinity gives +infinity, -infinity +0, zeros of both signs 1. Subnormal results
///          are kept.
/// Errors   invalid_argument if the numels differ.
/// Contract R23. Source: [Fusion:exp].
using ElementaryExpFn = void(const Exec&, Span<const float> x, Span<float> y);

/// tanh(x), correctly rounded.
///
/// Shapes, Exact, Errors as ElementaryExpFn.
/// Order    y is the fp32 value nearest to the real tanh(x) (R23), for example by
///            a = |x|, but 22 above 22;  (n, q) = reduced(2 * a) of ElementaryExpFn;  b = 2^n
///            p = b * q + (b - 1);  w = p / (p + 2);  y = fp32(w) with the sign of x
/// Special  NaN gives NaN, infinities 1 with their sign, a zero itself.
/// Contract R23. Source: [Fusion:tanh].
using ElementaryTanhFn = void(const Exec&, Span<const float> x, Span<float> y);

/// The logistic function 1 / (1 + exp(-x)), rounded from fp64.
///
/// Shapes, Exact, Errors as ElementaryExpFn.
/// Order    this sequence; it computes the fp32 value nearest to the real one but for 66 inputs (R23):
///            z = -x, but -105 below -105 and 105 above 105;  (n, q) = reduced(z) of ElementaryExpFn
///            e = 2^n * (1 + q);  w = 1 / (1 + e);  y = fp32(w)
/// Special  NaN gives NaN; +infinity gives 1, -infinity +0, zeros of both signs 1/2. Subnormal results are kept.
/// Contract R23. Source: [Fusion:sigmoid].
using ElementarySigmoidFn = void(const Exec&, Span<const float> x, Span<float> y);

/// The error function 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x, correctly rounded.
///
/// Shapes, Exact, Errors as ElementaryExpFn.
/// Order    y is the fp32 value nearest to the real erf(x) (R23), for example by
///            a = |x|, but 4 above 4
///            a < 1:    z = a * a;  w = c[12];  for k = 11, ..., 0:  w = w * z + c[k];   e = a + a * w
///                      with c = erf_small
///            others:   c = erf_middle and d = a - 1.75 below 2.5, else c = erf_large and d = a - 3.25
///                      e = c[20];  for k = 19, ..., 0:  e = e * d + c[k]
///            y = fp32(e) with the sign of x
/// Special  NaN gives NaN, infinities 1 with their sign, a zero itself. Subnormal results are kept.
/// Contract R23. Source: [Fusion:erf].
using ElementaryErfFn = void(const Exec&, Span<const float> x, Span<float> y);

/// The natural logarithm, rounded from fp64.
///
/// Shapes, Exact, Errors as ElementaryExpFn.
/// Order    this sequence; it computes the fp32 value nearest to the real one but for 5 inputs (R23):
///            x = 2^n * m with sqrt(1/2) <= m < sqrt(2), x widened:  b = bits(x) - sqrt_half_bits, as 64-bit
///            integers;  n = floor(b / 2^52), b being signed;  bits(m) = (b mod 2^52) + sqrt_half_bits
///            s = (m - 1) / (m + 1);  z = s * s;  p = 1/21;  for k = 19, 17, ..., 3:  p = p * z + 1/k
///            u = 2 * s;  v = u * (z * p);  y = fp32(n * ln2_high + (u + (v + n * ln2_low)))
/// Special  zeros of both signs give -infinity, negative numbers and -infinity NaN, +infinity itself, NaN gives NaN;
///          1 gives +0.
/// Contract R23. Source: [Fusion:log].
using ElementaryLogFn = void(const Exec&, Span<const float> x, Span<float> y);

}  // namespace zeroproof
