#pragma once
// Whether a manifest's pieces are a whole state.

#include <string>

#include "common/io/checkpoint/checkpoint_manifest.hpp"

namespace zeroproof {

/// What is wrong if not every state buffer has every element of every tensor exactly once, or a name that data are
/// found by is there twice: "has exp_avg of tensor 'head' twice". "" if nothing is. Each entry by itself is right
/// (parse_manifest). Takes memory for the pieces there are, however many states and tensors are named.
std::string coverage_problem(const CheckpointManifest& manifest);

}  // namespace zeroproof
