// What is compared and checked after every phase of one rank.

#include "common/base/error.hpp"
#include "verification/native_bound.hpp"
#include "verification/rank_pair.hpp"
#include "verification/write_sets.hpp"

namespace zeroproof::verification {

std::vector<Piece> RankPair::pieces_of(const ExposedBuffer& buffer) const {
  if (buffer.ranges.empty()) return {{-1, 0, 0, 0, buffer.view.numel}};
  return local().layout.pieces(buffer.ranges);
}

PhaseTally& RankPair::tally(Phase phase, BufferId buffer, const char* against) {
  for (PhaseTally& tally : tallies_) {
    if (tally.phase == phase && tally.buffer == buffer && tally.against == against) return tally;
  }
  return tallies_.emplace_back(PhaseTally{phase, buffer, against, 0, 0});
}

void RankPair::note(Divergence divergence) {
  if (divergence_) return;  // only the first one is a cause; later ones may be its consequences
  divergence.rank = comms_.harness->rank();
  divergence_ = std::move(divergence);
}

void RankPair::note_problem(std::int64_t step, Phase phase, const char* buffer, const std::string& what) {
  if (what.empty()) return;
  Divergence d;
  d.step = step;
  d.phase = phase;
  d.buffer = buffer;
  d.what = what;
  note(std::move(d));
}

void RankPair::note_difference(std::int64_t step, Phase phase, const ExposedBuffer& buffer,
                               const std::string& what, const Comparison& comparison,
                               const TensorView& reference, const TensorView& candidate) {
  if (!comparison.first || divergence_) return;
  Divergence d;
  d.step = step;
  d.phase = phase;
  d.buffer = name(buffer.id);
  d.what = what;
  d.compared = comparison.compared;
  d.differing = comparison.differing;
  d.shard_index = comparison.first->index;
  d.reference_value = show_bits(reference.dtype, comparison.first->reference_bits);
  d.candidate_value = show_bits(candidate.dtype, comparison.first->candidate_bits);
  for (const Piece& piece : pieces_of(buffer)) {
    if (piece.tensor < 0) continue;
    const auto inside = [&](std::int64_t local) {
      return local >= piece.local_begin && local < piece.local_begin + piece.numel;
    };
    if (inside(d.shard_index)) {
      d.global_index = layout_.global_index(place_.tp_rank, piece, d.shard_index - piece.local_begin);
      d.parameter = experiment_.layout().tensors()[static_cast<std::size_t>(piece.tensor)].name;
      d.coordinates = experiment_.layout().coordinates(d.global_index);
    }
    if (inside(comparison.last_index)) {
      d.last_global_index =
          layout_.global_index(place_.tp_rank, piece, comparison.last_index - piece.local_begin);
    }
  }
  note(std::move(d));
}

Comparison RankPair::compare_buffers(const ExposedBuffer& reference, const ExposedBuffer& candidate) const {
  ZP_CHECK(reference.ranges == candidate.ranges && reference.view.numel == candidate.view.numel,
           ErrorCode::internal, "the two sides expose different ranges of " + std::string(name(reference.id)),
           "elements could not be matched", "both must use the case's shard map");
  Comparison result;
  for (const Piece& piece : pieces_of(reference)) {
    result.add(compare(reference.view, candidate.view, piece.local_begin, piece.numel));
  }
  return result;
}

void RankPair::compare_phase(std::int64_t step, Phase phase, const Buffers& reference,
                             const Buffers& candidate) {
  for (const auto& [id, ours] : reference) {
    // The fused step keeps g1 and g in registers; nobody else may hide a buffer from its judge.
    const bool optional =
        spec_.twin == Twin::host_fused && (id == BufferId::unscaled_grad || id == BufferId::grad);
    if (!optional && candidate.find(id) == candidate.end()) {
      note_problem(step, phase, std::string(name(id)).c_str(), "is not exposed, so nothing could judge it");
    }
  }
  for (const auto& [id, theirs] : candidate) {
    const auto ours = reference.find(id);
    ZP_CHECK(ours != reference.end(), ErrorCode::internal,
             "the candidate exposes " + std::string(name(id)) + " in phase " + std::string(name(phase)),
             "the reference does not, so nothing judges it", "expose the buffers of the contract's table");
    const bool native = id == BufferId::grad_sum && spec_.place.grad_sum == GradSum::native;
    const Comparison result = native ? compare_native(theirs.view, pieces_of(theirs), *leaves_of_step_,
                                                      experiment_.config().micro_batches)
                                     : compare_buffers(ours->second, theirs);
    PhaseTally& sum = tally(phase, id, native ? "bound" : "reference");
    sum.compared += result.compared;
    sum.differing += result.differing;
    note_difference(
        step, phase, theirs,
        native ? "is further from the exact sum than any order may leave it" : "differs from the reference",
        result, ours->second.view, theirs.view);
  }
}

void RankPair::compare_with_truth(std::int64_t step, Phase phase, const Buffers& reference,
                                  const reference::DenseOptimizer& truth) {
  for (const auto& entry : reference) {  // clang does not let a lambda have structured bindings
    const BufferId id = entry.first;
    const ExposedBuffer& ours = entry.second;
    const TensorView whole = truth.buffer(id);
    if (whole.data == nullptr) continue;
    Comparison result;
    for (const Piece& piece : pieces_of(ours)) {
      if (piece.tensor < 0) {
        result.add(compare(whole, ours.view, 0, piece.numel));
        continue;
      }
      layout_.for_runs(place_.tp_rank, piece, [&](std::int64_t here, std::int64_t there, std::int64_t numel) {
        // Shift the truth so that both views are addressed by the shard index.
        const TensorView shifted{
            static_cast<std::byte*>(whole.data) + (there - here) * num_bytes(whole.dtype), whole.dtype,
            here + numel};
        result.add(compare(shifted, ours.view, here, numel));
      });
    }
    PhaseTally& sum = tally(phase, id, "undistributed");
    sum.compared += result.compared;
    sum.differing += result.differing;
    note_difference(step, phase, ours, "of the reference differs from the undistributed optimizer", result,
                    whole, ours.view);
  }
}

void RankPair::check_write_set(std::int64_t step, Phase phase) {
  for (std::size_t i = 0; i < storage_.size(); ++i) {
    const TensorView& view = storage_[i].view;
    if (may_write(phase, storage_[i].id)) continue;
    if (raw_digest(view.data, view.num_bytes()) == storage_digests_[i]) continue;
    Divergence d;
    d.step = step;
    d.phase = phase;
    d.buffer = name(storage_[i].id);
    d.what = "was changed by a phase that may not write it";
    note(std::move(d));
  }
  const std::string damaged = candidate_->damaged_guard();
  if (damaged.empty()) return;
  Divergence d;
  d.step = step;
  d.phase = phase;
  d.buffer = damaged;
  d.what = "was written outside its bounds (its red zone changed)";
  note(std::move(d));
}

void RankPair::check_padding(std::int64_t step, Phase phase, const Buffers& candidate) {
  for (const auto& [id, buffer] : candidate) {
    if (buffer.ranges.empty()) continue;
    const std::vector<Piece> pieces = pieces_of(buffer);
    std::int64_t next = 0;
    for (std::size_t p = 0; p <= pieces.size(); ++p) {
      const std::int64_t end = p < pieces.size() ? pieces[p].local_begin : buffer.view.numel;
      for (; next < end; ++next) {
        const std::uint64_t bits = element_bits(buffer.view, next);
        if (is_nan_bits(buffer.view.dtype, bits)) continue;
        Divergence d;
        d.step = step;
        d.phase = phase;
        d.buffer = name(id);
        d.what = "has a number in its padding, which must stay poisoned";
        d.shard_index = next;
        d.candidate_value = show_bits(buffer.view.dtype, bits);
        return note(std::move(d));
      }
      if (p < pieces.size()) next = pieces[p].local_begin + pieces[p].numel;
    }
  }
}

}  // namespace zeroproof::verification
