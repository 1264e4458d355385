#include "cuda/zero/offloaded_step.hpp"

namespace zeroproof::cuda {

OffloadedStep::OffloadedStep(RankShard& shard, OffloadedState& state, ChunkLane* lane, bool fused,
                             const PhaseOps& ops)
    : HostStep(shard, fused, ops), offloaded_(state), lane_(lane) {}

host::FusedState OffloadedStep::state_of(const Piece& piece) const {
  const std::size_t begin = at(piece);
  const auto numel = static_cast<std::size_t>(piece.numel);
  const auto part = [&](Span<float> all) { return all.empty() ? all : all.subspan(begin, numel); };
  return {part(chunk_state_.master), part(chunk_state_.exp_avg), part(chunk_state_.exp_avg_sq),
          part(chunk_state_.max_exp_avg_sq), part(chunk_state_.momentum_buffer)};
}

host::GradStretch OffloadedStep::grad_of(const Piece& piece) const {
  if (chunk_grad_ != nullptr) return {chunk_grad_ + at(piece), DType::fp32};
  return HostStep::grad_of(piece);
}

TensorView OffloadedStep::params_of(const Piece& piece) const {
  if (chunk_params_ == nullptr) return HostStep::params_of(piece);
  const DType dtype = setup_.param_dtype;
  return {chunk_params_ + static_cast<std::int64_t>(at(piece)) * num_bytes(dtype), dtype, piece.numel};
}

const StateSplit::Chunk* OffloadedStep::next_chunk() const {
  const std::vector<StateSplit::Chunk>& chunks = split_->chunks();
  const std::size_t next = chunk_ == nullptr ? 0 : static_cast<std::size_t>(chunk_->number) + 1;
  return next < chunks.size() ? &chunks[next] : nullptr;
}

void OffloadedStep::update_chunks(const StepDecision& decision) {
  sum_.begin();
  if (decision.leaf) sum_.is_leaf(*decision.leaf);
  clip_coef_ = decision.clip_coef;
  chunk_ = nullptr;
  if (lane_ != nullptr) {
    lane_->begin();
    if (const StateSplit::Chunk* first = next_chunk()) lane_->fetch(*first);
  }
  offloaded_.for_chunks(OffloadedState::Use::change,
                        [&](const StateSplit::Chunk& chunk, const host::FusedState& state) {
                          chunk_ = &chunk;
                          chunk_state_ = state;
                          if (lane_ != nullptr) {
                            chunk_grad_ = lane_->grads(chunk);
                            if (fused_) chunk_params_ = lane_->params(chunk);
                            const StateSplit::Chunk* next = next_chunk();
                            if (next != nullptr && setup_.offload.overlap) lane_->fetch(*next);
                          }
                          steps_.follow(decision);  // every update counts the step
                          HostStep::update();
                          if (fused_) send_params(false);
                          const StateSplit::Chunk* next = next_chunk();
                          if (lane_ != nullptr && next != nullptr && !setup_.offload.overlap)
                            lane_->fetch(*next);
                        });
  if (lane_ != nullptr) lane_->end();
}

void OffloadedStep::cast_chunks(const StepDecision& decision) {
  if (fused_) return;
  steps_.follow(decision);
  cast_all();
}

void OffloadedStep::load(const FullState& state) {
  steps_.load(state);
  cast_all();
}

void OffloadedStep::cast_all() {
  if (lane_ != nullptr) lane_->begin();
  offloaded_.for_chunks(OffloadedState::Use::read,
                        [&](const StateSplit::Chunk& chunk, const host::FusedState& state) {
                          chunk_ = &chunk;
                          chunk_state_ = state;
                          if (lane_ != nullptr) chunk_params_ = lane_->params(chunk);
                          cast_pieces();
                          send_params(true);
                        });
  if (lane_ != nullptr) lane_->end();
}

void OffloadedStep::send_params(bool all) {
  if (lane_ == nullptr) return;
  std::vector<Piece> made;
  for (const Piece& piece : chunk_->pieces.blocks()) {
    if (all || steps_.updated(piece)) made.push_back(piece);
  }
  lane_->send(*chunk_, made);
}

}  // namespace zeroproof::cuda
