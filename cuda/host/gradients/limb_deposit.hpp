#pragma once

#include "common/contracts/grad_norm.hpp"

namespace zeroproof::cuda::host {

/// Adds one chunk value (a sum of squares, NaN or +inf) to the limbs (R12).
void deposit(double chunk_value, NormLimbs& limbs);

/// into += from, as integers.
void merge(const NormLimbs& from, NormLimbs& into);

}  // namespace zeroproof::cuda::host
