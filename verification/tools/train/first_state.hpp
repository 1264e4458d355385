#pragma once
// Selects the checkpoint from which a run continues.

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/io/checkpoint/checkpoint_reader.hpp"

namespace zeroproof::verification {

/// The newest checkpoint of a folder; nothing if the folder is empty or does not exist. Under
/// allow_fallback every byte of it is read first, and if it is damaged an older one is taken;
/// `news` is called for each damaged one. Errors: damaged or io, naming the file, as
/// CheckpointReader.
std::unique_ptr<CheckpointReader> newest_checkpoint(
    const std::string& folder, bool allow_fallback,
    const std::function<void(const std::string&)>& news, Disk& disk = system_disk());

}  // namespace zeroproof::verification
