#pragma once

#include <string_view>

#include "common/base/span.hpp"
#include "common/step/phase.hpp"

namespace zeroproof::cuda {

/// A wrong optimizer on purpose, most of them modelled on a bug that happened in a public library.
struct Fault {
  std::string_view id;           ///< "Z49-double-unscale"
  std::string_view fault_class;  ///< family: elementwise math, reduction, sharding, clipping, scaling, ...
  Phase phase;                   ///< where the first difference must be found
  std::string_view summary;      ///< what it does
  std::string_view source;       ///< "owner/repository#number", or "" for our own
};

/// Every fault that can be planted, in all builds.
Span<const Fault> fault_catalogue();

/// True if this program was built with the planted faults in it.
bool faults_built();

}  // namespace zeroproof::cuda
