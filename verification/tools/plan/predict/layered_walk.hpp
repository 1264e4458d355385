#pragma once
// Memory of a micro-step of a layered model, in the order of allocation: units of parameters,
// gradients of units, gradients of buckets.

#include <cstdint>
#include <functional>

#include "verification/tools/plan/predict/predicted_step.hpp"

namespace zeroproof {

/// Events of the walk; bytes of parameters and gradients are allocated (positive) and freed
/// (negative).
struct LayeredEvents {
  std::function<void(std::int64_t bytes)> params;  ///< class param_full
  std::function<void(std::int64_t bytes)> grads;   ///< class grad
  std::function<void(std::size_t unit)> gather;  ///< a unit is made whole; its memory is allocated
  std::function<void(std::size_t bucket)>
      reduce;  ///< equal buckets are passed on; their memory is allocated
};

/// One micro-step of stages 2 and 3. computes: this rank has a micro-batch in it.
///
/// A unit's parameters exist while its visits run (stage 3; with overlap the next unit's too); its
/// gradient from its first backward visit until it is reduced. Buckets inside one unit are parts of
/// its gradient; the others have memory of their own from the first of their units that is complete
/// until the last one is.
/// With overlap a reduction may take until the second visit after it.
///
/// Shapes   needs buckets and units. Errors: none.
void walk_micro_step(const PredictedStep& shape, bool computes, const LayeredEvents& events);

}  // namespace zeroproof
