#pragma once
// The digests: one row per operation, per family of inputs and per trajectory. A row computes the
// same result with every available implementation and fails unless all agree, so one digest is that
// of all.

#include <string>
#include <vector>

#include "common/base/digest.hpp"

namespace zeroproof::golden {

struct Row {
  std::string name;  ///< "op adamw", without blanks at the end; unique
  Digest digest;
};

/// The result of one implementation.
struct Seen {
  std::string implementation;
  Digest digest;
};

/// The digest of all implementations. Throws std::runtime_error if two differ, or if there is none.
Row agreed(const std::string& name, const std::vector<Seen>& seen);

/// Digests of the inputs themselves: a difference here is caused by the generators, not by an
/// operation.
std::vector<Row> input_rows();

/// Every element-wise operation of tests/oracle, on `threads` threads.
std::vector<Row> operation_rows(int threads);

/// Operations that are not element-wise: norms, coefficients, trees, step scalars, the loss scaler.
/// The p-norm has a bound instead of fixed bits, so it has no digest.
std::vector<Row> other_rows(int threads);

/// Operations of the model besides the step (R23): activations, softmax, norms, losses and their
/// helpers.
std::vector<Row> fusion_rows(int threads);

/// Trajectories of the tiny workloads for every recipe with cases of them and every dtype, on one
/// rank and on three, host implementations phase by phase and fused. Throws std::runtime_error if a
/// case does not pass.
std::vector<Row> trajectory_rows(int threads);

}  // namespace zeroproof::golden
