#pragma once
// Writes the gradients of a built-in workload in the format of the workload "recorded".

#include <string>

#include "verification/cases/experiment.hpp"

namespace zeroproof::verification {

/// The settings of a run as TOML, for a file made from it: with its dtype only, and without the
/// path of its text, which is local to this machine.
std::string settings_text(const Experiment& experiment);

/// Trains the undistributed optimizer and writes the initial values, every micro-batch gradient in
/// fp32 at loss scale 1, the losses, and the settings of the run, so that a run of the recording
/// has its trajectory. The same experiment results in the same file. Errors: as SafetensorsWriter;
/// ErrorCode::config for settings that recordings do not support.
void record_gradients(const Experiment& experiment, const std::string& file);

}  // namespace zeroproof::verification
