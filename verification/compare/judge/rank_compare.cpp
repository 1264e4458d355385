// Comparisons and checks after every phase of one rank.

#include <cstring>

#include "common/base/error.hpp"
#include "verification/cases/write_sets.hpp"
#include "verification/compare/hint.hpp"
#include "verification/compare/judge/lacking_norm.hpp"
#include "verification/compare/judge/native_bound.hpp"
#include "verification/compare/judge/rank_comparison.hpp"
#include "verification/compare/limbs_hint.hpp"

namespace zeroproof::verification {
namespace {

/// Elements of `now` that differ from `before`, compared bytewise: not even another NaN may be
/// written.
Comparison compare_stored(const TensorView& before, const TensorView& now) {
  Comparison result;
  result.compared = now.numel;
  const std::int64_t width = num_bytes(now.dtype);
  for (std::int64_t i = 0; i < now.numel; ++i) {
    const auto at = [&](const TensorView& view) {
      return static_cast<const std::byte*>(view.data) + i * width;
    };
    if (std::memcmp(at(before), at(now), static_cast<std::size_t>(width)) == 0) continue;
    if (!result.first) result.first = {i, element_bits(before, i), element_bits(now, i)};
    ++result.differing;
    result.last_index = i;
  }
  return result;
}

/// True if two views overlap.
bool overlap(const TensorView& a, const TensorView& b) {
  const auto begin = [](const TensorView& view) {
    return reinterpret_cast<std::uintptr_t>(view.data);
  };
  const auto end = [&](const TensorView& view) {
    return begin(view) + static_cast<std::uintptr_t>(view.num_bytes());
  };
  return begin(a) < end(b) && begin(b) < end(a);
}

/// The fused step keeps g1 and g in registers, and a foreign whole step exposes a subset. No other
/// candidate may hide a buffer.
bool may_hide(const CaseSpec& spec, BufferId id) {
  const bool passing = id == BufferId::unscaled_grad || id == BufferId::grad;
  if (spec.implementation.foreign && spec.mode == Mode::whole)
    return passing || id == BufferId::norm_limbs || id == BufferId::grad_amax ||
           id == BufferId::trust_ratio || id == BufferId::orthogonal;
  return spec.implementation.fused && passing;
}

}  // namespace

std::vector<Piece> RankComparison::pieces_of(const ExposedBuffer& buffer) const {
  if (buffer.ranges.empty() || is_state_scale(buffer.id)) return {{-1, 0, 0, 0, buffer.view.numel}};
  return local().layout.pieces(buffer.ranges);
}

std::vector<Piece> RankComparison::owned_pieces() const {
  for (const ExposedBuffer& buffer : reference_->exposed(Phase::update)) {
    if (buffer.id != BufferId::master) continue;
    std::vector<Piece> pieces = pieces_of(buffer);
    for (Piece& piece : pieces) piece.local_begin = piece.global_begin;
    return pieces;
  }
  return {};
}

PhaseTally& RankComparison::tally(Phase phase, BufferId buffer, const char* against) {
  for (PhaseTally& tally : tallies_) {
    if (tally.phase == phase && tally.buffer == buffer && tally.against == against) return tally;
  }
  return tallies_.emplace_back(PhaseTally{phase, buffer, against, 0, 0});
}

Divergence RankComparison::place(std::int64_t step, Phase phase, std::string_view buffer,
                                 const std::string& what) const {
  Divergence d;
  d.step = step;
  d.phase = phase;
  d.rank = comms_.harness->rank();
  d.buffer = buffer;
  d.what = what;
  d.message = broken_message_;
  return d;
}

void RankComparison::note_problem(std::int64_t step, Phase phase, std::string_view buffer,
                                  const std::string& what) {
  if (!what.empty()) judge_.note(place(step, phase, buffer, what));
}

void RankComparison::count_comparison(const Comparison& comparison, const ExposedBuffer& buffer,
                                      Divergence at) {
  judge_.count(comparison, buffer.view.dtype, std::move(at),
               [&](Divergence& d, std::int64_t first, std::int64_t last) {
                 if (buffer.id == BufferId::norm_limbs) d.word = limb_name(first);
                 if (buffer.id == BufferId::trust_ratio) d.parameter = tensor_name(first);
                 for (const Piece& piece : pieces_of(buffer)) {
                   if (piece.tensor < 0) continue;
                   const auto inside = [&](std::int64_t local) {
                     return local >= piece.local_begin && local < piece.local_begin + piece.numel;
                   };
                   const auto global = [&](std::int64_t local) {
                     return layout_.global_index(place_.tp_rank, piece, local - piece.local_begin);
                   };
                   if (inside(last)) d.last_global_index = global(last);
                   if (!inside(first)) continue;
                   d.global_index = global(first);
                   d.parameter = tensor_name(piece.tensor);
                   d.coordinates = experiment_.layout().coordinates(d.global_index);
                 }
               });
}

Comparison RankComparison::compare_buffers(const ExposedBuffer& reference,
                                           const ExposedBuffer& candidate) const {
  ZP_CHECK(reference.ranges == candidate.ranges && reference.view.numel == candidate.view.numel,
           ErrorCode::internal,
           "the two sides expose different ranges of " + std::string(name(reference.id)),
           "the shard maps differ", "both sides must use the shard map of the case");
  std::vector<ElementRun> runs;
  for (const Piece& piece : pieces_of(reference)) {
    runs.push_back({piece.local_begin, piece.local_begin, piece.numel});
  }
  return compare_runs(reference.view, candidate.view, runs);
}

std::string RankComparison::clip_group_name(std::int64_t group) const {
  if (group == 0) return "clip group 0";
  return "clip group " + experiment_.config().clip_groups[static_cast<std::size_t>(group) - 1].name;
}

std::string RankComparison::groups_difference(const ExposedBuffer& ours,
                                              const ExposedBuffer& theirs) const {
  const auto count = static_cast<std::int64_t>(experiment_.config().clip_groups.size()) + 1;
  const bool of_groups = ours.id == BufferId::norm_limbs || ours.id == BufferId::grad_amax ||
                         ours.id == BufferId::grad_norm || ours.id == BufferId::clip_coef;
  if (!of_groups || count == 1) return {};
  const std::int64_t words = ours.view.numel / count;
  std::string names;
  for (std::int64_t i = 0; i < count * words; ++i) {
    const bool same = element_bits(ours.view, i) == element_bits(theirs.view, i);
    if (same || names.find(clip_group_name(i / words)) != std::string::npos) continue;
    names += (names.empty() ? ", in " : " and ") + clip_group_name(i / words);
  }
  return names;
}

std::string RankComparison::norm_difference(Phase phase, const Buffers& candidate,
                                            const reference::DenseOptimizer* truth) const {
  const auto limbs = candidate.find(BufferId::norm_limbs);
  if (phase != Phase::norm || truth == nullptr || limbs == candidate.end()) return {};
  return describe_lacking(layout_, comms_.harness->world_size(),
                          experiment_.config().optimizer.norm, experiment_.setup().clip_groups,
                          *truth, limbs->second.view);
}

std::set<BufferId> RankComparison::compare_phase(std::int64_t step, Phase phase,
                                                 const Buffers& reference, const Buffers& candidate,
                                                 const reference::DenseOptimizer* truth) {
  std::set<BufferId> same;
  if (any_order_) any_order_->take_factors(reference);
  for (const auto& [id, ours] : reference) {
    if (!may_hide(spec_, id) && candidate.find(id) == candidate.end()) {
      note_problem(step, phase, name(id), "is not exposed, so it cannot be compared");
    }
  }
  for (const auto& [id, theirs] : candidate) {
    const auto ours = reference.find(id);
    ZP_CHECK(
        ours != reference.end(), ErrorCode::internal,
        "the candidate exposes " + std::string(name(id)) + " in phase " + std::string(name(phase)),
        "the reference does not, so it cannot be compared",
        "expose the buffers of the contract's table");
    const std::vector<Piece> pieces = pieces_of(theirs);
    for (const Piece& piece : pieces) judge_.see(theirs.view, piece.local_begin, piece.numel);
    const bool native = id == BufferId::grad_sum && spec_.place.grad_sum == GradSum::native;
    const bool any_order = any_order_ && any_order_->applies(phase, theirs);
    const Comparison result = native      ? compare_native(theirs.view, pieces, exact_sums_)
                              : any_order ? any_order_->compare(phase, ours->second, theirs, pieces)
                                          : compare_buffers(ours->second, theirs);
    PhaseTally& sum = tally(phase, id, native || any_order ? "bound" : "reference");
    sum.compared += result.compared;
    sum.differing += result.differing;
    if (result.same_bits && !native) same.insert(id);
    if (!result.first || judge_.first()) continue;
    Divergence at =
        place(step, phase, name(id),
              native      ? "is outside the bound around the exact sum"
              : any_order ? "is outside the bound of any legal order"
                          : "differs from the reference" + groups_difference(ours->second, theirs) +
                                norm_difference(phase, candidate, truth));
    if (any_order) {
      if (phase == Phase::update) at.hint = any_order_->wrong_formula(candidate, pieces);
    } else if (!native) {
      at.hint = hint_of(phase, ours->second, theirs);
    }
    count_comparison(result, theirs, std::move(at));
  }
  return same;
}

void RankComparison::compare_with_truth(std::int64_t step, Phase phase, const Buffers& reference,
                                        const reference::DenseOptimizer& truth) {
  // clang does not allow lambdas to capture structured bindings
  for (const auto& entry : reference) {
    const BufferId id = entry.first;
    const ExposedBuffer& ours = entry.second;
    const TensorView whole = truth.buffer(id);
    if (whole.data == nullptr) continue;
    // The transposed copy of a tensor split by TP is no part of the undistributed one; candidates'
    // copies are compared with the reference's.
    const bool transposed =
        id == BufferId::param_columns && truth.buffer(BufferId::column_shard).data == nullptr;
    if (transposed && !local().placement.empty()) continue;
    std::vector<ElementRun> runs;
    std::int64_t here = 0;
    for (const FlatRange& blocks : ours.ranges) {  // of the undistributed numbering (R25)
      if (!is_state_scale(id)) break;
      runs.push_back({blocks.begin, here, blocks.numel()});
      here += blocks.numel();
    }
    for (const Piece& piece : pieces_of(ours)) {
      if (is_state_scale(id)) break;
      if (piece.tensor < 0) {
        runs.push_back({0, 0, piece.numel});
        continue;
      }
      layout_.for_runs(place_.tp_rank, piece,
                       [&](std::int64_t here, std::int64_t there, std::int64_t numel) {
                         runs.push_back({there, here, numel});
                       });
    }
    const Comparison result = compare_runs(whole, ours.view, runs);
    PhaseTally& sum = tally(phase, id, "undistributed");
    sum.compared += result.compared;
    sum.differing += result.differing;
    count_comparison(
        result, ours,
        place(step, phase, name(id), "of the reference differs from the undistributed optimizer"));
  }
}

void RankComparison::check_write_set(std::int64_t step, Phase phase) {
  for (std::size_t i = 0; i < storage_.size(); ++i) {
    const TensorView& view = storage_[i].view;
    if (storage_[i].shared) continue;  // other ranks write it in their own phases
    if (may_write(phase, storage_[i].id)) continue;
    if (view.numel == 0 || std::memcmp(view.data, stored_[i].data(), stored_[i].size()) == 0)
      continue;
    changed_[i] = true;
    const TensorView before{stored_[i].data(), view.dtype, view.numel};
    Divergence at =
        place(step, phase, name(storage_[i].id), "was changed by a phase that may not write it");
    if (!judge_.first()) {
      HintEvidence evidence;
      evidence.want = before;
      evidence.got = view;
      const bool counts =
          storage_[i].id == BufferId::applied_steps || storage_[i].id == BufferId::tensor_steps;
      if (counts) evidence.meaning = Meaning::count;
      at.hint = hint(evidence);
    }
    count_comparison(compare_stored(before, view), storage_[i], std::move(at));
  }
  check_red_zones(step, phase);
}

void RankComparison::store(std::size_t index) {
  const TensorView& view = storage_[index].view;
  const auto* bytes = static_cast<const std::byte*>(view.data);
  stored_[index].assign(bytes, bytes + view.num_bytes());
}

void RankComparison::remember_storage(Phase phase, const Buffers& overwritten) {
  for (std::size_t i = 0; i < storage_.size(); ++i) {
    const bool touched = std::any_of(
        overwritten.begin(), overwritten.end(),
        [&](const auto& entry) { return overlap(storage_[i].view, entry.second.view); });
    if (touched || changed_[i] || may_write(phase, storage_[i].id)) store(i);
    changed_[i] = false;
  }
}

void RankComparison::check_red_zones(std::int64_t step, Phase phase) {
  const std::string damaged = candidate_->damaged_guard();
  if (damaged.empty()) return;
  note_problem(step, phase, damaged, "was written outside its bounds (its red zone changed)");
}

void RankComparison::check_padding(std::int64_t step, Phase phase, const Buffers& candidate) {
  for (const auto& [id, buffer] : candidate) {
    if (buffer.ranges.empty() || is_state_scale(id)) continue;
    const std::vector<Piece> pieces = pieces_of(buffer);
    std::int64_t next = 0;
    for (std::size_t p = 0; p <= pieces.size(); ++p) {
      const std::int64_t end = p < pieces.size() ? pieces[p].local_begin : buffer.view.numel;
      next = first_number(buffer.view, next, end);
      if (next < end) {
        Divergence d =
            place(step, phase, name(id), "has a number in its padding, which must stay poisoned");
        d.shard_index = next;
        d.candidate_value = show_bits(buffer.view.dtype, element_bits(buffer.view, next));
        return judge_.note(std::move(d));
      }
      if (p < pieces.size()) next = pieces[p].local_begin + pieces[p].numel;
    }
  }
}

}  // namespace zeroproof::verification
