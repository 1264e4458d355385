#pragma once

#include <cstdint>

#include "common/base/exec.hpp"
#include "common/base/span.hpp"

namespace zeroproof {

/// Statistics of a tensor's gradient, reported when a step was skipped: which tensor overflowed,
/// and by how much.
struct GradStats {
  std::uint32_t amax =
      0;  ///< largest magnitude as an integer: bits & 0x7FFFFFFF, and 0x7FFFFFFF for a NaN
  std::uint64_t num_nonfinite = 0;  ///< NaN and infinities
  std::uint64_t num_zeros = 0;      ///< of both signs, without subnormal numbers

  bool operator==(const GradStats&) const = default;
};

/// A range of one tensor within a buffer.
struct GradSegment {
  std::int64_t begin = 0;   ///< its first element in the buffer
  std::int64_t numel = 0;   ///< >= 0
  std::int64_t tensor = 0;  ///< index of its statistics
};

/// Statistics of the tensors that have segments in a buffer, added to the old values: amax is raised, counts grow.
///
/// Shapes   grad: [numel], numel >= 0; segments: any number, in any order, each within grad, of any lengths, empty ones
///          too; they may overlap. Several may belong to one tensor. Elements outside of all segments count nowhere.
///          stats: [num_tensors]; ranks combine theirs by integer maximum and sums.
/// Order    none: integers.
/// Exact    integer.
/// Errors   invalid_argument if a segment reaches beyond grad or its tensor beyond stats; nothing is added then.
/// Contract R12 (the form inf has the same amax), R14.
using GradStatsFn = void(const Exec&, Span<const float> grad, Span<const GradSegment> segments,
                         Span<GradStats> stats);

}  // namespace zeroproof
