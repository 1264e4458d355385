#pragma once
// A tensor of a whole parameter, from the shards of a recorded step.

#include <string>
#include <vector>

#include "verification/tools/judge_run/recording.hpp"

namespace zeroproof::verification {

struct AssembledTensor {
  std::vector<std::int64_t> elements;  ///< of leaf
  std::vector<float> values;           ///< NaN where it is not recorded
  std::vector<std::size_t> owner;      ///< rank of every element
  DType dtype = DType::fp32;           ///< as recorded
  bool complete = false;               ///< every owner has it
};

/// The tensors KIND of all owners of a parameter. `replica`: the rank whose copy of a replicated parameter is taken.
AssembledTensor assemble(const RunStep& step, std::size_t p, const std::string& kind,
                         std::size_t replica = 0);

}  // namespace zeroproof::verification
