#pragma once
// A checkpoint as a command line names it, and the training it belongs to.

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

/// The one that is named, or the newest of the folder. Errors (ErrorCode::io): there is none; otherwise as
/// CheckpointReader.
std::unique_ptr<CheckpointReader> open_checkpoint(const std::string& path);

/// A training as a checkpoint or a log describes it, to be run again.
struct SavedTraining {
  std::unique_ptr<Experiment> experiment;
  CaseSpec spec;  ///< where it ran
};

/// steps: that it must reach. label: who says so. Errors: damaged, if it does not say what it is; config, if its text
/// or its gradients are not there any more, or others.
SavedTraining saved_training(const Json& about, std::int64_t steps, const std::string& label);

}  // namespace zeroproof::verification
