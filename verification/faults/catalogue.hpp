#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "common/base/span.hpp"
#include "common/step/phase.hpp"

namespace zeroproof::verification {

/// What is put in the place of something right. All but `implementation` and `device` stand around production, which runs as it
/// is.
enum class FaultKind : std::uint8_t {
  setup,           ///< settings other than those of the run
  state,           ///< a loaded state other than the saved one
  gradients,       ///< a source of gradients
  communicator,    ///< a group of ranks
  layers,          ///< gatherer, sink or plan of a layer-by-layer pass
  buffers,         ///< what the optimizer shows, or memory it leaves behind
  implementation,  ///< a whole function that computes something else
  operation,       ///< the same of an operation beside the step, which calls find
  device           ///< a whole function that enqueues something else, for candidates on a device
};
std::string_view name(FaultKind kind);

/// A wrong optimizer on purpose, most of them modelled on a bug that happened in a public library.
struct Fault {
  std::string_view id;  ///< "double-unscale"
  FaultKind kind = FaultKind::implementation;
  std::string_view
      fault_class;  ///< family: elementwise math, reduction, sharding, clipping, scaling, ...
  std::optional<Phase>
      phase;  ///< where the first difference must be found; none in L-BFGS and in calls
  std::string_view summary;  ///< what it does
  std::string_view source;   ///< "owner/repository#number", or "" for our own
};

/// Every fault that can be planted, in all programs.
Span<const Fault> fault_catalogue();

/// Those of a step on a device; every case that finds one runs on a simulated device too.
Span<const Fault> device_faults();

/// Those of what is saved and loaded.
Span<const Fault> resume_faults();

/// Those of parameters, state and masters in fewer bits.
Span<const Fault> format_faults();

/// Those of operations beside the step.
Span<const Fault> operation_faults();

/// Those of L-BFGS: the last ones of the catalogue.
Span<const Fault> lbfgs_faults();

/// The name of its phase, "call" or "l-bfgs".
std::string_view place_of(const Fault& fault);

}  // namespace zeroproof::verification
