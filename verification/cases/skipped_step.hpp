#pragma once
// Report of a skipped step (R14).

#include <cstdint>
#include <string>
#include <vector>

#include "common/contracts/grad_stats.hpp"

namespace zeroproof::verification {

/// A tensor with infinities or NaN in G.
struct NonfiniteTensor {
  std::string name;
  std::int64_t numel = 0;  ///< undistributed
  GradStats stats;         ///< over all its elements on all ranks

  bool operator==(const NonfiniteTensor&) const = default;
};

struct SkippedStep {
  std::int64_t step = 0;         ///< counted from 1
  std::int64_t num_tensors = 0;  ///< of the model, those without elements too
  std::uint32_t amax = 0;        ///< over all tensors, as GradStats has it
  std::vector<NonfiniteTensor>
      nonfinite;  ///< in registration order; none if only the scale made infinities

  bool operator==(const SkippedStep&) const = default;
};

}  // namespace zeroproof::verification
