#pragma once
// The same state, cut as other ranks would have saved it.

#include <functional>
#include <string>

#include "verification/tools/train/checkpoints/opened_checkpoint.hpp"

namespace zeroproof::verification {

/// Writes a checkpoint into `folder`, with the files of the ranks of `spec` (world, grid, layout, instances, bucket).
/// A MiB of elements is in memory at a time, besides what the reader holds. progress: called with bytes since the last
/// call. Returns the label of what was written. Errors: config, if the model cannot be cut that way; io and damaged as
/// CheckpointReader and
/// CheckpointRoot; nothing is left then.
std::string reshard(const CheckpointReader& from, const Experiment& experiment,
                    const CaseSpec& spec, const std::string& folder,
                    const std::function<void(std::int64_t)>& progress, Disk& disk = system_disk());

}  // namespace zeroproof::verification
