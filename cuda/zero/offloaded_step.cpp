#include "cuda/zero/offloaded_step.hpp"

#include <algorithm>

#include "common/step/scaled_params.hpp"

namespace zeroproof::cuda {

OffloadedStep::OffloadedStep(RankShard& shard, OffloadedState& state, ChunkLane* lane, bool fused,
                             const PhaseOps& ops)
    : HostStep(shard, fused, ops), offloaded_(state), lane_(lane), scales_(shard.scales) {}

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
  if (scales_ != nullptr) std::ranges::fill(scales_->elsewhere(), 0U);
  // The gradient sum of these elements may be the host's already, and whoever made the decision has waited for it.
  const TakesPart takes_part = updated_now();
  const bool casts = fused_ && scales_ == nullptr;
  const bool fetches = lane_ != nullptr && !setup_.offload.grads;
  if (lane_ != nullptr) lane_->begin();
  if (fetches) {
    if (const StateSplit::Chunk* first = next_chunk()) lane_->fetch(*first);
  }
  offloaded_.for_chunks(OffloadedState::Use::change,
                        [&](const StateSplit::Chunk& chunk, const host::FusedState& state) {
                          chunk_ = &chunk;
                          chunk_state_ = state;
                          const StateSplit::Chunk* next = next_chunk();
                          if (fetches) chunk_grad_ = lane_->grads(chunk);
                          if (casts && lane_ != nullptr) chunk_params_ = lane_->params(chunk);
                          if (fetches && next != nullptr && setup_.offload.overlap) lane_->fetch(*next);
                          steps_.follow(decision);  // every update counts the step
                          HostStep::update();
                          if (casts) send_params(takes_part);
                          if (scales_ != nullptr) collect_chunk(takes_part);
                          if (fetches && next != nullptr && !setup_.offload.overlap) lane_->fetch(*next);
                        });
  is_collected_ = true;
  if (lane_ != nullptr) lane_->end();
}

void OffloadedStep::cast_chunks(const StepDecision& decision) {
  if (fused_ && scales_ == nullptr) return;
  steps_.follow(decision);
  if (scales_ != nullptr) return code_chunks(updated_now(), false);
  cast_all();
}

void OffloadedStep::load(const FullState& state) {
  steps_.load(state);
  if (scales_ == nullptr) return cast_all();
  const bool dequantise = setup_.scaling.initial_master == InitialMaster::dequantised;
  code_chunks(every_tensor, dequantise && !has_loaded_scales(state, setup_, scales_->blocks()));
}

void OffloadedStep::cast_all() {
  if (lane_ != nullptr) lane_->begin();
  offloaded_.for_chunks(OffloadedState::Use::read,
                        [&](const StateSplit::Chunk& chunk, const host::FusedState& state) {
                          chunk_ = &chunk;
                          chunk_state_ = state;
                          if (lane_ != nullptr) chunk_params_ = lane_->params(chunk);
                          cast_pieces();
                          send_params(every_tensor);
                        });
  if (lane_ != nullptr) lane_->end();
}

void OffloadedStep::send_params(const TakesPart& takes_part) {
  if (lane_ == nullptr) return;
  std::vector<Piece> made;
  for (const Piece& piece : chunk_->pieces.blocks()) {
    if (takes_part(piece.tensor)) made.push_back(piece);
  }
  lane_->send(*chunk_, made);
}

void OffloadedStep::load_collected(const FullState& state) {
  steps_.load(state);
  if (!has_loaded_scales(state, setup_, scales_->blocks())) collect_all(every_tensor);
  is_collected_ = false;
}

void OffloadedStep::collect_chunks(const StepDecision& decision) {
  if (is_collected_) return;
  steps_.follow(decision);
  collect_all(updated_now());
}

void OffloadedStep::collect_all(const TakesPart& takes_part) {
  std::ranges::fill(scales_->elsewhere(), 0U);
  offloaded_.for_chunks(OffloadedState::Use::read,
                        [&](const StateSplit::Chunk& chunk, const host::FusedState& state) {
                          chunk_ = &chunk;
                          chunk_state_ = state;
                          collect_chunk(takes_part);
                        });
}

void OffloadedStep::collect_chunk(const TakesPart& takes_part) {
  const Span<std::uint32_t> amax = scales_->elsewhere();
  chunk_->pieces.run(setup_.exec, [&](const Exec& exec, const Piece& piece) {
    if (!takes_part(piece.tensor)) return;
    scales_->for_runs(piece, [&](const Piece& run) {
      ops_.block_amax(exec, scales_->blocks().grid(run.tensor), setup_.scaling.value, run.tensor_begin,
                      state_of(run).master, scales_->of_tensor(amax, run.tensor));
    });
  });
}

void OffloadedStep::code_chunks(const TakesPart& takes_part, bool dequantise) {
  const std::vector<float> scale = scales_->host_scale();
  const std::vector<float> scale_inv = dequantise ? scales_->host_scale_inv() : std::vector<float>{};
  const auto code_run = [&]<class T>(const Exec& exec, const Piece& run, T) {
    const BlockGrid& grid = scales_->blocks().grid(run.tensor);
    const Span<float> master = state_of(run).master;
    ops_.quantize(exec, {grid, setup_.scaling.value, Overflow::saturate}, run.tensor_begin, master,
                  scales_->of_tensor(Span<const float>(scale), run.tensor), params_as<T>(run));
    if (!dequantise) return;
    ops_.dequantize(exec, grid, run.tensor_begin, params_as<T>(run),
                    scales_->of_tensor(Span<const float>(scale_inv), run.tensor), master);
  };
  if (lane_ != nullptr) lane_->begin();
  offloaded_.for_chunks(dequantise ? OffloadedState::Use::change : OffloadedState::Use::read,
                        [&](const StateSplit::Chunk& chunk, const host::FusedState& state) {
                          chunk_ = &chunk;
                          chunk_state_ = state;
                          if (lane_ != nullptr) chunk_params_ = lane_->params(chunk);
                          chunk.pieces.run(setup_.exec, [&](const Exec& exec, const Piece& piece) {
                            if (!takes_part(piece.tensor)) return;
                            scales_->for_runs(piece, [&](const Piece& run) {
                              setup_.param_dtype == DType::e5m2 ? code_run(exec, run, e5m2{})
                                                                : code_run(exec, run, e4m3{});
                            });
                          });
                          send_params(takes_part);
                        });
  if (lane_ != nullptr) lane_->end();
}

}  // namespace zeroproof::cuda
