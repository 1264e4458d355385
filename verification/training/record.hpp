#pragma once
// Writes the gradients of a built-in workload in the form that the workload "recorded" reads.

#include <string>

#include "verification/cases/experiment.hpp"

namespace zeroproof::verification {

/// The settings of a run as TOML, for a file that is made from it: of its dtype alone, and without the path of its
/// text, which is one of this machine.
std::string settings_text(const Experiment& experiment);

/// Trains the undistributed optimizer and writes first values, every leaf gradient in fp32 at loss scale 1, and
/// the losses, and the settings of the run, so that a run of the recording has its trajectory. The same experiment
/// gives the same file. Errors: as SafetensorsWriter; ErrorCode::config for settings no recording can have.
void record_gradients(const Experiment& experiment, const std::string& file);

}  // namespace zeroproof::verification
