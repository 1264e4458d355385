#include <cmath>
#include <string>

#include "common/base/error.hpp"
#include "reference/blocks.hpp"
#include "reference/operations.hpp"

namespace zeroproof::reference {
namespace {

/// Checked before anything is computed from a length: sums of such numbers may overflow.
void check_segment(const GradSegment& segment, std::int64_t grad_numel, std::int64_t num_tensors) {
  const bool inside = segment.begin >= 0 && segment.begin <= grad_numel && segment.numel >= 0 &&
                      segment.numel <= grad_numel - segment.begin;
  ZP_CHECK(inside, ErrorCode::invalid_argument,
           "a segment of " + std::to_string(segment.numel) + " elements from " +
               std::to_string(segment.begin) + " is not within a gradient of " +
               std::to_string(grad_numel),
           "it would read other memory", "pass segments within the buffer");
  ZP_CHECK(segment.tensor >= 0 && segment.tensor < num_tensors, ErrorCode::invalid_argument,
           "a segment belongs to tensor " + std::to_string(segment.tensor) + " of " +
               std::to_string(num_tensors),
           "stats has no element for it", "pass stats with one element per tensor");
}

}  // namespace

void grad_stats(const Exec&, Span<const float> grad, Span<const GradSegment> segments,
                Span<GradStats> stats) {
  for (const GradSegment& segment : segments) check_segment(segment, numel(grad), numel(stats));
  for (const GradSegment& segment : segments) {
    const Span<const float> elements = part(grad, segment.begin, segment.numel);
    GradStats& of_tensor = stats[segment.tensor];
    grad_max_accumulate({}, elements, of_tensor.amax);
    for (const float x : elements) {
      if (!std::isfinite(x)) ++of_tensor.num_nonfinite;
      if (x == 0) ++of_tensor.num_zeros;
    }
  }
}

}  // namespace zeroproof::reference
