#pragma once
// What is digested: one row per operation, per family of inputs and per trajectory. A row computes the same thing with
// every implementation there is and demands that all agree, so one digest stands for all of them.

#include <string>
#include <vector>

#include "common/base/digest.hpp"

namespace zeroproof::golden {

struct Row {
  std::string name;  ///< "op adamw", without blanks at the end; unique
  Digest digest;
};

/// What one implementation gave.
struct Seen {
  std::string implementation;
  Digest digest;
};

/// The digest all implementations agree on. Throws std::runtime_error if two disagree, or if there is none.
Row agreed(const std::string& name, const std::vector<Seen>& seen);

/// Digests of the inputs themselves: a difference here is one of the generators, not of an operation.
std::vector<Row> input_rows();

/// Every element-wise operation of tests/oracle, on `threads` threads.
std::vector<Row> operation_rows(int threads);

/// What is not element-wise: norms, coefficients, trees, step scalars, the loss scaler. The p-norm is bounded, not
/// bitwise, so it has no digest.
std::vector<Row> other_rows(int threads);

/// Operations of the model beside the step (R23): activations, softmax, norms, losses and what belongs to them.
std::vector<Row> fusion_rows(int threads);

/// Trajectories of the tiny workloads for every recipe they have cases of, and dtype, on one rank and on three, host
/// implementations phase by phase and fused. Throws std::runtime_error if a case does not pass.
std::vector<Row> trajectory_rows(int threads);

}  // namespace zeroproof::golden
