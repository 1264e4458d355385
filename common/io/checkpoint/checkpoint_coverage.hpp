#pragma once
// Checks that a manifest's pieces are a complete state.

#include <string>

#include "common/io/checkpoint/checkpoint_manifest.hpp"

namespace zeroproof {

/// Describes the problem if not every state buffer has every element of every tensor exactly once,
/// or a name that identifies data appears twice: "has exp_avg of tensor 'head' twice". "" if there
/// is no problem. Each entry by itself is valid (parse_manifest). Memory is proportional to the
/// pieces, not to the number of states times tensors.
std::string coverage_problem(const CheckpointManifest& manifest);

}  // namespace zeroproof
