#pragma once
// Powers of beta that a correct program may compute in fp32 (papers/bounds.md, [Bound:powers]).

#include <cstdint>
#include <vector>

namespace zeroproof::verification {

/// The fp32 numbers below 1 within 4 ulps of beta^t, the nearest to it first.
/// Units    beta: 0 to 1, without 1. t: from 1.
std::vector<float> fp32_powers(float beta, std::int64_t t);

}  // namespace zeroproof::verification
