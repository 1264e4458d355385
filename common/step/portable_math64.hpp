#pragma once
// Cosine, exponential and logarithm in fp64 that give the same bits with every libc, compiler and machine
// (R20).
//
// Only + - * / of fp64, one rounding per written operation, and moves of bits. Errors are in units in the
// last place (ulp) of the exact result; the derivation of the bounds from reduction, series and roundings is at
// each function in the source. Largest errors found against 113-bit arithmetic: cos_pi 1.27, exp 0.92, log
// 0.80.

namespace zeroproof::portable_math64 {

/// cos(pi x) for 0 <= x <= 1, otherwise NaN. Error below 2 ulp. Exact at 0, 1/2 and 1 (1, +0 and -1), inside
/// [-1, 1], and cos_pi(1 - x) = -cos_pi(x) wherever 1 - x is exact.
double cos_pi(double x);

/// exp(x) for every x: 0 from -746 down, infinity from 710 up, NaN for NaN. Error below 1.5 ulp, subnormal
/// results included. exp(0) = 1.
double exp(double x);

/// log(x) for positive finite x, subnormal ones included, otherwise NaN. Error below 2 ulp. log(1) = +0.
double log(double x);

}  // namespace zeroproof::portable_math64
