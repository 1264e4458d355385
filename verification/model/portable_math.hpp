#pragma once
// exp, tanh and log with the same bits for every libc, compiler and instruction set (R18, R23).
//
// The fp32 functions are the reference's; the fp64 ones, for gradients that tests compare with
// differences, have the same building blocks. One rounding per written operation; only log branches
// on its argument, so loops over the other functions can be vectorised. Domain: every value of the
// argument type. NaN gives NaN.
//
// Largest error found, in units in the last place of the result, against libm in the next wider
// type:
//   exp_f32 0.5, tanh_f32 0.5    over every fp32 value: both are correctly rounded
//   exp_f64 1.14, tanh_f64 3.34, log_f64 1.99    over 3e7 random arguments of all sizes

#include <bit>
#include <cstdint>

#include "reference/layers/scalar_math.hpp"

namespace zeroproof::workload {

using reference::scalar_math::exp_f32;
using reference::scalar_math::log_f64;
using reference::scalar_math::tanh_f32;

inline double exp_f64(double x) {
  using namespace reference::scalar_math;
  const ReducedExp e = reduce_exp(limit(x, -746.0, 710.0));
  // Two factors, because 2^n alone may be outside the normal numbers (n is in -1076 to 1024).
  const std::int64_t half = e.n >> 1;
  return ((1.0 + e.q) * power_of_two(half)) * power_of_two(e.n - half);
}

inline double tanh_f64(double x) {
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(x);
  const double magnitude = std::bit_cast<double>(bits & 0x7FFFFFFFFFFFFFFFU);
  const double result = reference::scalar_math::tanh_of_magnitude(magnitude);
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(result) | (bits & 0x8000000000000000U));
}

// The same names for both element types of the model.
inline float exp_real(float x) { return exp_f32(x); }
inline double exp_real(double x) { return exp_f64(x); }
inline float tanh_real(float x) { return tanh_f32(x); }
inline double tanh_real(double x) { return tanh_f64(x); }

}  // namespace zeroproof::workload
