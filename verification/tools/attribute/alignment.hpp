#pragma once
// Operations of two recordings, one beside the other.

#include <optional>
#include <vector>

#include "verification/tools/attribute/operations_file.hpp"

namespace zeroproof::verification {

/// A row has an operation of each side, or of one side alone.
struct AlignedRow {
  std::optional<std::size_t> before, after;  ///< indices of the old and the new operations

  bool is_pair() const { return before && after; }
};

/// Rows in the order of both sides. Operations are paired if they have the same name, phase and shapes of inputs; dtypes,
/// options and modules may differ. Where the sides differ, the shortest edit is taken after which some operations
/// agree again (Myers, "An O(ND) Difference Algorithm and Its Variations", 1986); beyond 2,000 edits the rest is not paired.
std::vector<AlignedRow> align(const std::vector<Operation>& before,
                              const std::vector<Operation>& after);

/// Inputs or outputs of a pair, by name: the tensors of a list have one name. A side that has no such value has none.
struct ValuePair {
  const OperationValue *before = nullptr, *after = nullptr;

  /// Same text, and the same bits where both are known.
  bool same() const;
  /// Both bits are known, and differ.
  bool other_bits() const;
};
std::vector<ValuePair> pair_values(const std::vector<OperationValue>& before,
                                   const std::vector<OperationValue>& after);

}  // namespace zeroproof::verification
