#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "common/base/span.hpp"
#include "common/step/phase.hpp"

namespace zeroproof::verification {

/// The part that is replaced by a wrong one. All kinds but `implementation`, `operation` and
/// `device` wrap an unchanged production step.
enum class FaultKind : std::uint8_t {
  setup,           ///< settings other than those of the run
  state,           ///< a loaded state other than the saved one
  gradients,       ///< a source of gradients
  communicator,    ///< a group of ranks
  layers,          ///< gatherer, sink or plan of a layer-by-layer pass
  buffers,         ///< exposed views of the optimizer, or memory it leaves behind
  implementation,  ///< a whole function that computes a wrong result
  operation,       ///< a wrong function of an operation outside the step, found by calls
  device           ///< a whole function that enqueues wrong work, for candidates on a device
};
std::string_view name(FaultKind kind);

/// An optimizer that is wrong on purpose; most are modelled on a bug of a public library.
struct Fault {
  std::string_view id;  ///< "double-unscale"
  FaultKind kind = FaultKind::implementation;
  std::string_view
      fault_class;  ///< family: elementwise math, reduction, sharding, clipping, scaling, ...
  std::optional<Phase> phase;  ///< phase of the first difference; none in L-BFGS and in calls
  std::string_view summary;    ///< its effect
  std::string_view source;     ///< "owner/repository#number", or "" for our own
};

/// Every fault that can be planted, in all programs.
Span<const Fault> fault_catalogue();

/// Faults of a step on a device; every case that finds one also runs on a simulated device.
Span<const Fault> device_faults();

/// Faults of saving and loading.
Span<const Fault> resume_faults();

/// Faults of parameters, state and masters in fewer bits.
Span<const Fault> format_faults();

/// Faults of the rule muon.
Span<const Fault> muon_faults();

/// Faults of operations outside the step.
Span<const Fault> operation_faults();

/// Faults of L-BFGS: the last ones of the catalogue.
Span<const Fault> lbfgs_faults();

/// The name of its phase, "call" or "l-bfgs".
std::string_view place_of(const Fault& fault);

}  // namespace zeroproof::verification
