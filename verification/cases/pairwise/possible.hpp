#pragma once
// The values, pairs of values and triples of groups that at least one run can have.

#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/span.hpp"
#include "verification/cases/pairwise/combination_table.hpp"
#include "verification/cases/pairwise/space.hpp"

namespace zeroproof::verification {

/// Possible combinations of values, each with a run that has it.
class PossibleCombinations {
 public:
  /// Walks through the runs of a space from its defaults, one value at a time, and tests each run.
  /// For every value it continues among the runs that have it, until it has found the values that
  /// occur with it, or has tried each of the others several times. For pairs that are still open it
  /// mixes runs that have one value with runs that have the other, which takes most of the time and
  /// is left out for Strength::values: pairs may then be missing. Strength::triples also mixes runs
  /// that have two values of a triple with runs that have the third; pairs and their runs are those
  /// of Strength::pairs. The result depends on the space and the strength only.
  explicit PossibleCombinations(const RunSpace& space, Strength strength = Strength::pairs);

  const CombinationTable& table() const { return table_; }

  /// A run that has all values of a possible combination.
  const CoveredRow& witness(std::size_t combination) const { return rows_[witness_[combination]]; }

 private:
  class Draw;

  void meet(const CoveredRow& row, Strength strength);
  void walk(const RunSpace& space, CoveredRow row, int steps, std::uint64_t seed);
  void walk_with(const RunSpace& space, int value);
  void mix_pair(const RunSpace& space, int a, int b);
  void mix_triple(const RunSpace& space, std::size_t triple);
  std::optional<CoveredRow> mixed(const RunSpace& space, Draw& draw, const CoveredRow& one,
                                  const CoveredRow& other, Span<const int> members,
                                  int quarters) const;

  CombinationTable table_;
  std::vector<CoveredRow> rows_;
  std::vector<std::vector<int>> rows_with_;  // [number] indices of rows
  std::vector<int> witness_;                 // [combination], index of a row or -1
};

}  // namespace zeroproof::verification
