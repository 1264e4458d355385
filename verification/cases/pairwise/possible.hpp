#pragma once
// The values and pairs of values that at least one run can have.

#include <cstdint>
#include <vector>

#include "verification/cases/pairwise/pair_table.hpp"
#include "verification/cases/pairwise/space.hpp"

namespace zeroproof::verification {

enum class Strength : std::uint8_t { values = 1, pairs = 2 };

/// Possible values and pairs, each with a run that has it.
class PossiblePairs {
 public:
  /// Walks through the runs of a space from its defaults, one value at a time, and tests each run.
  /// For every value it continues among the runs that have it, until it has found the values that
  /// occur with it, or has tried each of the others several times. For pairs that are still open it
  /// mixes runs that have one value with runs that have the other, which takes most of the time and
  /// is left out for Strength::values: pairs may then be missing. The result depends on the space
  /// and the strength only.
  explicit PossiblePairs(const RunSpace& space, Strength strength = Strength::pairs);

  const PairTable& table() const { return table_; }

  /// A run that has both values (or one value, a = b), which must exist.
  const CoveredRow& witness(int a, int b) const;

 private:
  void meet(const CoveredRow& row);
  void walk(const RunSpace& space, CoveredRow row, int steps, std::uint64_t seed);
  void walk_with(const RunSpace& space, int value);
  void mix(const RunSpace& space, int a, int b);

  PairTable table_;
  std::vector<CoveredRow> rows_;
  std::vector<std::vector<int>> rows_with_;  // [number] indices of rows
  std::vector<int> witness_;                 // [number][number], index of a row or -1
};

}  // namespace zeroproof::verification
