#pragma once
// Square roots that are not correctly rounded.

namespace zeroproof::verification {

/// The root that PyTorch's torch.sqrt takes of a float on AMD processors, where it calls MKL's
/// vector library: an approximation y of 1/sqrt(x) with 13 bits, the processor's instruction
/// RSQRTPS, and then, all rounded to fp32,
///
///     s = x*y;  e = 1 - s*y;  s' = (s/2)*e + s;  y' = (y/2)*e + y;  root = s' + (x - s'*s')*(y'/2)
///
/// Exact    bitwise, against PyTorch 2.15.0 on an AMD EPYC (Zen 5): all 2^24 values of [1, 4), [2^-126, 2^-124) and
///          [2^126, 2^128); samples at every other power of 4; it is one ulp off the correctly rounded root in 17 %.
///          Subnormal values and those above 0x7f7ff000 have the correctly rounded root.
/// Errors   none. Which instruction MKL takes, and what RSQRTPS returns, differs between makers of processors.
float mkl_amd_root(float x);

/// 1/sqrt(x) as RSQRTPS of that processor returns it, for a positive normal x.
float amd_inverse_root(float x);

}  // namespace zeroproof::verification
