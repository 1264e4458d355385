#include "verification/compare/judge.hpp"

#include <utility>

namespace zeroproof::verification {

Comparison compare_runs(const TensorView& want, const TensorView& got,
                        const std::vector<ElementRun>& runs) {
  Comparison result;
  for (const ElementRun& run : runs) {
    // Shifted so that the index in `got` addresses both views.
    const std::int64_t shift = run.want - run.got;
    const TensorView shifted{static_cast<std::byte*>(want.data) + shift * num_bytes(want.dtype),
                             want.dtype, want.numel - shift};
    result.add(compare(shifted, got, run.got, run.numel));
  }
  return result;
}

void Judge::count(const Comparison& comparison, DType dtype, Divergence place,
                  const NameElements& name) {
  compared_ += comparison.compared;
  differing_ += comparison.differing;
  if (!comparison.first || first_) return;
  place.compared = comparison.compared;
  place.differing = comparison.differing;
  place.shard_index = comparison.first->index;
  place.reference_value = show_bits(dtype, comparison.first->reference_bits);
  place.candidate_value = show_bits(dtype, comparison.first->candidate_bits);
  if (name) name(place, comparison.first->index, comparison.last_index);
  note(std::move(place));
}

void Judge::see(const TensorView& got, std::int64_t begin, std::int64_t numel) {
  // Blocks of bytes: Hasher's own loop over values would take 4 % of a run.
  const std::int64_t width = num_bytes(got.dtype);
  const Digest part =
      raw_digest(static_cast<const std::byte*>(got.data) + begin * width, numel * width);
  hasher_.add(part.high);
  hasher_.add(part.low);
  seen_ += numel;
}

void Judge::note(Divergence divergence, std::int64_t differing) {
  differing_ += differing;
  if (!first_) first_ = std::move(divergence);
}

}  // namespace zeroproof::verification
