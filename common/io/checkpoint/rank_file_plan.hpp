#pragma once
// Layout of a rank's file.

#include <string>
#include <vector>

#include "common/io/checkpoint/checkpoint_manifest.hpp"
#include "common/io/safetensors/safetensors_types.hpp"

namespace zeroproof {

struct RankFilePlan {
  std::string head;                ///< begin of the file: the header's length, and the header
  std::vector<std::size_t> order;  ///< order of the pieces' elements in the file
};

/// names: the manifest's tensors, run and step. Errors: invalid_argument if a reader would reject it.
RankFilePlan plan_rank_file(const CheckpointManifest& names,
                            const std::vector<CheckpointPiece>& pieces);

}  // namespace zeroproof
