#pragma once
// A checkpoint named on the command line, and its training.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/io/checkpoint/checkpoint_reader.hpp"
#include "verification/cases/case.hpp"
#include "verification/cases/experiment.hpp"

namespace zeroproof::verification {

/// "runs" or "runs/step-00000050".
struct CheckpointPath {
  std::string root;
  std::optional<std::int64_t> step;
};
CheckpointPath parse_checkpoint_path(const std::string& path);

/// The named checkpoint, or the newest one of the folder. Errors (ErrorCode::io): there is none;
/// otherwise as CheckpointReader.
std::unique_ptr<CheckpointReader> open_checkpoint(const std::string& path);

/// A training as described by a checkpoint or a log, to be run again.
struct SavedTraining {
  std::unique_ptr<Experiment> experiment;
  CaseSpec spec;  ///< where it ran
};

/// steps: that it must reach. label: source of the description, for messages. Errors: damaged, if
/// the description is incomplete; config, if its text or its gradients are missing or have changed.
SavedTraining saved_training(const Json& about, std::int64_t steps, const std::string& label);

}  // namespace zeroproof::verification
