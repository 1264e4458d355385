#pragma once
// Constructed gradients for faults that show on few values.

#include <string>

namespace zeroproof::verification {

/// A recording of one parameter "w" [8], two equal steps, 64 micro-batches; returns its path. All
/// micro-batch gradients of elements 0, 1, 2, 6 and 7 are in one bin of binned sums. Of the others,
///
///   element 3  has 2^-6 in micro-batch 0 and 1 in micro-batch 1, one bin higher, and then zeros
///   element 4  has 2^-6 in micro-batch 0 and 1 in micro-batch 63, and zeros between
///   element 5  sums to (2^53 + 2^29 + 1) * 2^-53: one above the middle of two fp32 values, which fp64 cannot
///              hold
///
/// The file disappears when the program ends. Errors: io.
std::string bins_recording();

}  // namespace zeroproof::verification
