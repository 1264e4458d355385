#pragma once

#include <string>

#include "common/base/error.hpp"
#include "common/contracts/grad_stats.hpp"

namespace zeroproof::cuda::host {

/// Throws invalid_argument unless every segment is inside a gradient of numel elements and belongs
/// to one of the tensors.
inline void require_segments(Span<const GradSegment> segments, std::int64_t numel,
                             std::int64_t num_tensors) {
  for (const GradSegment& segment : segments) {
    ZP_CHECK(segment.begin >= 0 && segment.numel >= 0 && segment.begin <= numel &&
                 segment.numel <= numel - segment.begin,
             ErrorCode::invalid_argument,
             "grad_stats: a segment of " + std::to_string(segment.numel) + " elements begins at " +
                 std::to_string(segment.begin) + " of " + std::to_string(numel),
             "memory beyond the gradient would be read", "pass segments of this buffer");
    ZP_CHECK(segment.tensor >= 0 && segment.tensor < num_tensors, ErrorCode::invalid_argument,
             "grad_stats: a segment belongs to tensor " + std::to_string(segment.tensor) + " of " +
                 std::to_string(num_tensors),
             "the index is past the end of the statistics", "pass statistics for every tensor");
  }
}

}  // namespace zeroproof::cuda::host
