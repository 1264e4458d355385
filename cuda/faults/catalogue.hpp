#pragma once

#include <optional>
#include <string_view>

#include "common/base/span.hpp"
#include "common/step/phase.hpp"

namespace zeroproof::cuda {

/// A wrong optimizer on purpose, most of them modelled on a bug that happened in a public library.
struct Fault {
  std::string_view id;           ///< "Z49-double-unscale"
  std::string_view fault_class;  ///< family: elementwise math, reduction, sharding, clipping, scaling, ...
  std::optional<Phase> phase;    ///< where the first difference must be found; none in L-BFGS
  std::string_view summary;      ///< what it does
  std::string_view source;       ///< "owner/repository#number", or "" for our own
};

/// Every fault that can be planted, in all builds.
Span<const Fault> fault_catalogue();

/// Those of L-BFGS: the last ones of the catalogue.
Span<const Fault> lbfgs_faults();

/// The name of its phase, or "l-bfgs".
std::string_view place_of(const Fault& fault);

/// True if this program was built with the planted faults in it.
bool faults_built();

}  // namespace zeroproof::cuda
