#include "verification/training/resume/resume_judge.hpp"

#include <vector>

#include "verification/compare/hint.hpp"

namespace zeroproof::verification {
namespace {

/// The concatenated elements of the runs, expected and actual.
std::vector<std::byte> gathered(const TensorView& view, const std::vector<ElementRun>& runs,
                                std::int64_t ElementRun::*begin) {
  std::vector<std::byte> bytes;
  const std::int64_t width = num_bytes(view.dtype);
  for (const ElementRun& run : runs) {
    const auto* const from = static_cast<const std::byte*>(view.data) + run.*begin * width;
    bytes.insert(bytes.end(), from, from + run.numel * width);
  }
  return bytes;
}

/// A likely cause, derived from the elements alone.
std::string hint_of(BufferId id, const TensorView& whole, const TensorView& here,
                    const std::vector<ElementRun>& runs) {
  std::vector<std::byte> want = gathered(whole, runs, &ElementRun::want),
                         got = gathered(here, runs, &ElementRun::got);
  const std::int64_t numel = static_cast<std::int64_t>(want.size()) / num_bytes(whole.dtype);
  HintEvidence evidence;
  evidence.want = {want.data(), whole.dtype, numel};
  evidence.got = {got.data(), here.dtype, numel};
  if (id == BufferId::applied_steps || id == BufferId::tensor_steps)
    evidence.meaning = Meaning::count;
  return hint(evidence);
}

}  // namespace

void ResumeJudge::begin_step(std::int64_t step, const reference::DenseOptimizer& truth) {
  step_ = step;
  truth_ = &truth;
}

void ResumeJudge::observe(Phase phase, const ExposedBuffer& buffer) {
  compare(phase, buffer, "differs from the uninterrupted undistributed run");
}

void ResumeJudge::loaded(std::int64_t step, const reference::DenseOptimizer& truth,
                         DistributedOptimizer& optimizer) {
  begin_step(step, truth);
  for (const Phase phase : {Phase::unscale, Phase::update, Phase::cast, Phase::gather}) {
    for (const ExposedBuffer& buffer : optimizer.exposed(phase)) {
      // Only the loss scaler is state in unscale; the other buffers belong to the last step, which
      // this optimizer has not made.
      if (phase == Phase::unscale && buffer.id != BufferId::loss_scaler) continue;
      if (buffer.id == BufferId::amax || buffer.id == BufferId::trust_ratio ||
          buffer.id == BufferId::orthogonal)
        continue;  // they belong to the last step too
      compare(phase, buffer, "differs from the saved state after loading");
    }
  }
}

void ResumeJudge::stepped(DistributedOptimizer& optimizer) {
  for (const Phase phase : all_phases) {
    // Norm and coefficient are NaN in a skipped step; state and parameters must be unchanged.
    const bool left_out = skipped_on_overflow(phase) && phase < Phase::update;
    if (left_out && optimizer.skipped()) continue;
    for (const ExposedBuffer& buffer : optimizer.exposed(phase)) observe(phase, buffer);
  }
}

void ResumeJudge::compare(Phase phase, const ExposedBuffer& buffer, const std::string& what) {
  const TensorView whole = truth_->buffer(buffer.id);
  if (whole.data == nullptr) return;
  const int tp_rank = layout_.place(rank_).tp_rank;
  const FlatLayout& local = layout_.local(tp_rank).layout;
  // Ranges of scales of state count blocks of the undistributed numbering (R25), which no parameter is named by.
  const bool of_blocks = is_state_scale(buffer.id);
  const std::vector<Piece> pieces = of_blocks ? std::vector<Piece>{} : local.pieces(buffer.ranges);
  std::vector<ElementRun> runs;
  std::int64_t blocks_here = 0;
  for (const FlatRange& blocks : buffer.ranges) {
    if (of_blocks) runs.push_back({blocks.begin, blocks_here, blocks.numel()});
    blocks_here += blocks.numel();
  }
  // Scalars are whole; a rank may have no elements of other buffers.
  if (buffer.ranges.empty() && buffer.view.numel > 0) runs.push_back({0, 0, whole.numel});
  for (const Piece& piece : pieces) {
    layout_.for_runs(tp_rank, piece,
                     [&](std::int64_t here, std::int64_t there, std::int64_t numel) {
                       runs.push_back({there, here, numel});
                     });
  }
  Divergence place;
  place.step = step_;
  place.phase = phase;
  place.rank = rank_;
  place.buffer = name(buffer.id);
  place.what = what;
  for (const ElementRun& run : runs) judge_.see(buffer.view, run.got, run.numel);
  const Comparison comparison = compare_runs(whole, buffer.view, runs);
  if (comparison.first && !judge_.first())
    place.hint = hint_of(buffer.id, whole, buffer.view, runs);
  judge_.count(comparison, buffer.view.dtype, std::move(place),
               [&](Divergence& d, std::int64_t first, std::int64_t last) {
                 for (const Piece& piece : pieces) {
                   const auto global = [&](std::int64_t at) {
                     return layout_.global_index(tp_rank, piece, at - piece.local_begin);
                   };
                   const auto inside = [&](std::int64_t at) {
                     return at >= piece.local_begin && at < piece.local_begin + piece.numel;
                   };
                   if (inside(last)) d.last_global_index = global(last);
                   if (!inside(first)) continue;
                   d.global_index = global(first);
                   d.parameter = experiment_.layout().tensors()[piece.tensor].name;
                   d.coordinates = experiment_.layout().coordinates(d.global_index);
                 }
               });
}

}  // namespace zeroproof::verification
