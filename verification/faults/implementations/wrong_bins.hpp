#pragma once
// Binned sums (R11) of a step, each with one fault.

#include "verification/faults/implementations/plain_reduce.hpp"

namespace zeroproof::verification {

/// The content of the top bin is lost when the top rises.
Values lower_bin_forgotten(Leaves& leaves, const OptimizerSetup& setup);

/// Two ranks' bins are added without a common top.
Values bins_merged_unaligned(Leaves& leaves, const OptimizerSetup& setup);

/// The sum of bins is rounded to fp64 and then to fp32.
Values bins_rounded_twice(Leaves& leaves, const OptimizerSetup& setup);

}  // namespace zeroproof::verification
