#pragma once
// Storage formats of a checkpoint's state (R25), from its own settings.

#include <map>
#include <string>

#include "common/io/checkpoint/checkpoint_reader.hpp"
#include "common/step/state_format.hpp"

namespace zeroproof::verification {

/// Of every buffer of state that has scales, by name: fp16 or e4m3. Errors: damaged, if settings
/// and scales of the checkpoint contradict each other.
std::map<std::string, StateFormat> saved_scaled_formats(const CheckpointReader& checkpoint);

}  // namespace zeroproof::verification
