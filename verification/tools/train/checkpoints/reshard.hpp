#pragma once
// Writes the same state, split as other ranks would have saved it.

#include <functional>
#include <string>

#include "verification/tools/train/checkpoints/opened_checkpoint.hpp"

namespace zeroproof::verification {

/// Writes a checkpoint into `folder`, with the files of the ranks of `spec` (world, grid, layout,
/// instances, bucket). One MiB of elements is in memory at a time, besides the reader's memory.
/// progress: called with the bytes since the last call. Returns the label of the new checkpoint.
/// Errors: config, if the model cannot be split that way; io and damaged as CheckpointReader and
/// CheckpointRoot; no file is left then.
std::string reshard(const CheckpointReader& from, const Experiment& experiment,
                    const CaseSpec& spec, const std::string& folder,
                    const std::function<void(std::int64_t)>& progress, Disk& disk = system_disk());

}  // namespace zeroproof::verification
