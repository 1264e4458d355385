#pragma once
// What is digested: one row per operation, per family of inputs and per trajectory. A row computes the same thing with
// every twin there is and demands that all agree, so one digest stands for all of them.

#include <string>
#include <vector>

#include "common/base/digest.hpp"

namespace zeroproof::golden {

struct Row {
  std::string name;  ///< "op adamw", without blanks at the end; unique
  Digest digest;
};

/// Digests of the inputs themselves: a difference here is one of the generators, not of an operation.
std::vector<Row> input_rows();

/// Every element-wise operation of tests/oracle, and the sums, scalars and trees beside them, on `threads` threads.
/// Throws std::runtime_error if two twins disagree.
std::vector<Row> operation_rows(int threads);

/// Trajectories of byte_gpt_tiny for every rule and dtype, on `threads` ranks of a thread each, host twins phase by
/// phase and fused. Throws std::runtime_error if a case does not pass.
std::vector<Row> trajectory_rows(int threads);

}  // namespace zeroproof::golden
