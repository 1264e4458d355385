#pragma once
// The way in which a program added a reduced gradient: in fp32, or with sums in a format of 16 bits.

#include <string>
#include <vector>

#include "verification/tools/judge_run/run_assembled.hpp"
#include "verification/tools/judge_run/run_element.hpp"

namespace zeroproof::verification {

struct ReducedWay {
  std::string name;                  ///< "accumulated in bf16"; "" for fp32
  std::vector<ElementBound> bounds;  ///< [elements of leaf], with the loss scale
};

/// The first way of judge_reduce that all values of parameter `p` are within, or fp32 if there is none. reduced: the
/// assembled tensor. All ranks have the tensors leaf.
ReducedWay reduced_way(const RunStep& step, std::size_t p, const AssembledTensor& reduced);

}  // namespace zeroproof::verification
