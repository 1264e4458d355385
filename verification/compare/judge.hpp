#pragma once
// Common part of all comparisons of the harness: compares the bits of two buffers, counts
// differences and keeps the first one.

#include <functional>
#include <optional>
#include <vector>

#include "verification/cases/result.hpp"
#include "verification/compare/compare.hpp"

namespace zeroproof::verification {

/// Elements common to two buffers, and their first index in each.
struct ElementRun {
  std::int64_t want = 0;
  std::int64_t got = 0;
  std::int64_t numel = 0;
};

/// Compares the elements of the runs; indices are those in `got`.
/// Errors: as compare.
Comparison compare_runs(const TensorView& want, const TensorView& got,
                        const std::vector<ElementRun>& runs);

class Judge {
 public:
  /// Sets in a divergence the parameter of element `first` of the buffer, and the position of
  /// `last`.
  using NameElements = std::function<void(Divergence&, std::int64_t first, std::int64_t last)>;

  /// Counts a comparison. For the first one that differs, keeps `place` (step, phase, rank, buffer,
  /// what) with the element, the values and the extent filled in.
  void count(const Comparison& comparison, DType dtype, Divergence place,
             const NameElements& name = {});

  /// Records an error that is not a difference of elements; `differing` elements are counted for
  /// it.
  void note(Divergence divergence, std::int64_t differing = 0);

  /// Adds results of the candidate, elements [begin, begin + numel), to results().
  void see(const TensorView& got, std::int64_t begin, std::int64_t numel);

  RankResults results(int rank) const { return {rank, seen_, hasher_.digest()}; }

  /// The first divergence; later ones may be its consequences.
  const std::optional<Divergence>& first() const { return first_; }

  std::int64_t compared() const { return compared_; }
  std::int64_t differing() const { return differing_; }

 private:
  std::optional<Divergence> first_;
  std::int64_t compared_ = 0, differing_ = 0, seen_ = 0;
  Hasher hasher_;
};

}  // namespace zeroproof::verification
