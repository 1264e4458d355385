// Statistics of a run: elements that moved, steps that were clipped, bytes that were read.

#include <cmath>

#include "common/base/float_formats.hpp"
#include "verification/compare/judge/rank_buffers.hpp"
#include "verification/compare/judge/rank_comparison.hpp"

namespace zeroproof::verification {
namespace {

/// Bytes the phases unscale to cast read and write per element.
std::int64_t bytes_per_element(Implementation implementation, DType param_dtype,
                               int state_buffers) {
  const std::int64_t param = num_bytes(param_dtype);
  const std::int64_t update = 8 * (1 + state_buffers);  // master and state are read and written
  if (implementation.fused) return 4 + (4 + update + param);  // read G; read G, update, write param
  return 8 + 4 + 8 + (4 + update) + (4 + param);              // unscale, norm, clip, update, cast
}

}  // namespace

void RankComparison::count_bytes() {
  std::int64_t numel = 0;
  const Buffers update = by_id(reference_->exposed(Phase::update));
  for (const Piece& piece : pieces_of(update.at(BufferId::master))) numel += piece.numel;
  int states = 0;
  for (const StateSlot slot : all_state_slots) states += update.count(buffer_of(slot)) > 0 ? 1 : 0;
  timing_.reference_bytes =
      numel * bytes_per_element(Implementation::host, experiment_.param_dtype(), states);
  timing_.candidate_bytes =
      numel * bytes_per_element(spec_.implementation, experiment_.param_dtype(), states);
}

void RankComparison::remember_master() {
  const TensorView master = by_id(reference_->exposed(Phase::update)).at(BufferId::master).view;
  master_before_.resize(master.numel);
  for (std::int64_t i = 0; i < master.numel; ++i) master_before_[i] = load_element(master, i);
}

void RankComparison::count(const Buffers& reference, Phase phase) {
  if (phase == Phase::clip) {
    if (any_of<float>(reference, BufferId::clip_coef, [](float coef) { return coef < 1.0F; }))
      ++clipped_steps_;
    grad_reaches_update_ =
        any_of<float>(reference, BufferId::clip_coef, [](float coef) { return coef != 0; });
  }
  if (phase != Phase::update || !grad_reaches_update_) return;
  const ExposedBuffer& master = reference.at(BufferId::master);
  std::int64_t nan_elements = 0;
  std::int64_t moved_elements = 0;
  for (const Piece& piece : pieces_of(master)) {
    updated_elements_ += piece.numel;
    for (std::int64_t i = piece.local_begin; i < piece.local_begin + piece.numel; ++i) {
      const float before = master_before_[i];
      const bool number = !std::isnan(before);
      nan_elements += number ? 0 : 1;
      moved_elements += (number && before != load_element(master.view, i)) ? 1 : 0;
    }
  }
  nan_elements_ += nan_elements;
  moved_elements_ += moved_elements;
}

}  // namespace zeroproof::verification
