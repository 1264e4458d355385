#pragma once
// What is where in a rank's file.

#include <string>
#include <vector>

#include "common/io/checkpoint/checkpoint_manifest.hpp"
#include "common/io/safetensors/safetensors_types.hpp"

namespace zeroproof {

struct RankFilePlan {
  std::string head;  ///< what the file begins with: the header's length, and the header
  std::vector<std::size_t> order;  ///< of the pieces, whose elements follow one after another
};

/// names: the manifest's tensors, run and step. Errors: invalid_argument for what a reader would refuse.
RankFilePlan plan_rank_file(const CheckpointManifest& names,
                            const std::vector<CheckpointPiece>& pieces);

}  // namespace zeroproof
