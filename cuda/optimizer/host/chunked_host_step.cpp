#include "cuda/optimizer/host/chunked_host_step.hpp"

#include <algorithm>
#include <cstddef>

#include "common/step/scaled_params.hpp"

namespace zeroproof::cuda {
namespace {

/// Stored state of a chunk.
class ChunkPlace final : public StoredPlace {
 public:
  ChunkPlace(const StateSplit& split, const StateSplit::Chunk& chunk, const ChunkState& state)
      : split_(split), chunk_(chunk), master_(state[BufferId::master]) {
    for (const StateSlot slot : all_state_slots) {
      codes_[slot] = state[buffer_of(slot)];
      scales_[slot] = state[scales_of(slot)];
    }
  }

  std::byte* codes(StateSlot slot, const Piece& piece) const override {
    return at(codes_[slot], piece);
  }
  std::byte* master(const Piece& piece) const override { return at(master_, piece); }
  float& scale(StateSlot slot, const Piece& of_block) const override {
    return static_cast<float*>(scales_[slot].data)[place(of_block) / state_block_numel];
  }

 private:
  std::int64_t place(const Piece& piece) const {
    return split_.place(piece.local_begin) - chunk_.begin;
  }
  std::byte* at(const TensorView& buffer, const Piece& piece) const {
    return static_cast<std::byte*>(buffer.data) + place(piece) * num_bytes(buffer.dtype);
  }

  const StateSplit& split_;
  const StateSplit::Chunk& chunk_;
  const TensorView master_;
  PerSlot<TensorView> codes_, scales_;
};

/// Codes of columns are copied to a device like those of parameters.
std::unique_ptr<OffloadStream> column_lane(const RankShard& shard, const OffloadStream* lane) {
  if (lane == nullptr || shard.column_params == nullptr) return nullptr;
  const TensorView codes = shard.column_params->shard();
  return std::make_unique<OffloadStream>(*shard.split, nullptr, codes, shard.setup.offload.overlap);
}

}  // namespace

ChunkedHostStep::ChunkedHostStep(RankShard& shard, OffloadedState& state, OffloadStream* lane,
                                 bool fused, const KernelTable& ops)
    : HostStep(shard, fused, ops),
      offloaded_(state),
      lane_(lane),
      scales_(shard.scales),
      column_lane_(column_lane(shard, lane)) {
  if (scales_ != nullptr) codes_.push_back({scales_, &shard.params, lane});
  if (shard.column_scales == nullptr) return;
  codes_.push_back({shard.column_scales, shard.column_params, column_lane_.get()});
}

std::int64_t ChunkedHostStep::column_bytes() const {
  if (codes_.size() < 2) return 0;
  return codes_.back().scales->host_bytes() + (column_lane_ ? column_lane_->host_bytes() : 0);
}

host::FusedState ChunkedHostStep::state_of(const Piece& piece) const {
  return chunk_values_.part(static_cast<std::int64_t>(at(piece)), piece.numel);
}

Span<const bf16> ChunkedHostStep::bf16_master_of(const Piece& piece) const {
  const auto* const master = static_cast<const bf16*>(chunk_state_[BufferId::master].data);
  return {master + at(piece), static_cast<std::size_t>(piece.numel)};
}

void ChunkedHostStep::store_updates(const StateBlocks::Wanted& wanted,
                                    const StateBlocks::Change& update,
                                    const StateBlocks::Stored& stored) const {
  tiles_->update_at(ChunkPlace(*split_, *chunk_, chunk_state_), chunk_->pieces, setup_.exec, wanted,
                    update, round_masters(1), stored);
}

void ChunkedHostStep::collect_tile_norms(const StateBlocks::Wanted& wanted, const TileNorms& body) {
  tiles_->sum_at<TrustRatios::Part>(ChunkPlace(*split_, *chunk_, chunk_state_), chunk_->pieces,
                                    setup_.exec, wanted, body,
                                    [&](const TrustRatios::Part& part) { trust_.add(part); });
}

host::GradStretch ChunkedHostStep::grad_of(const Piece& piece) const {
  if (chunk_grad_ != nullptr) return {chunk_grad_ + at(piece), DType::fp32};
  return HostStep::grad_of(piece);
}

TensorView ChunkedHostStep::params_of(const Piece& piece) const {
  if (chunk_params_ == nullptr) return HostStep::params_of(piece);
  const DType dtype = setup_.param_dtype;
  return {chunk_params_ + static_cast<std::int64_t>(at(piece)) * num_bytes(dtype), dtype,
          piece.numel};
}

const StateSplit::Chunk* ChunkedHostStep::next_chunk() const {
  const std::vector<StateSplit::Chunk>& chunks = split_->chunks();
  const std::size_t next = chunk_ == nullptr ? 0 : static_cast<std::size_t>(chunk_->number) + 1;
  return next < chunks.size() ? &chunks[next] : nullptr;
}

void ChunkedHostStep::work_on(const StateSplit::Chunk& chunk, const ChunkState& state) {
  chunk_ = &chunk;
  chunk_state_ = state;
  chunk_values_ = state.fused();
}

void ChunkedHostStep::follow(const StepDecision& decision) {
  sum_.begin();
  if (decision.leaf) sum_.is_leaf(*decision.leaf);
  clip_coef_ = decision.clip_coef;
  trust_.set_values(decision.trust_ratio);
  steps_.follow(decision);
}

template <class Body>
void ChunkedHostStep::for_grads(OffloadedState::Use use, const Body& body) {
  chunk_ = nullptr;
  // The gradient sum of these elements may already be on the host; the code that made the decision
  // has waited for it.
  const bool fetches = lane_ != nullptr && !setup_.offload.grads;
  if (lane_ != nullptr) lane_->begin();
  if (fetches) {
    if (const StateSplit::Chunk* first = next_chunk()) lane_->fetch(*first);
  }
  offloaded_.for_chunks(use, [&](const StateSplit::Chunk& chunk, const ChunkState& state) {
    work_on(chunk, state);
    const StateSplit::Chunk* next = next_chunk();
    if (fetches) chunk_grad_ = lane_->grads(chunk);
    if (fetches && next != nullptr && setup_.offload.overlap) lane_->fetch(*next);
    body(chunk);
    if (fetches && next != nullptr && !setup_.offload.overlap) lane_->fetch(*next);
  });
  if (lane_ != nullptr) lane_->end();
}

std::vector<TrustNorms> ChunkedHostStep::trust_norms(const StepDecision& decision) {
  follow(decision);
  for_grads(OffloadedState::Use::read,
            [&](const StateSplit::Chunk& /*chunk*/) { collect_trust_norms(); });
  return trust_.take_norms();
}

void ChunkedHostStep::move_momenta(const StepDecision& decision) {
  follow(decision);
  for_grads(OffloadedState::Use::change,
            [&](const StateSplit::Chunk& /*chunk*/) { HostStep::move_momenta(); });
}

void ChunkedHostStep::update_chunks(const StepDecision& decision) {
  follow(decision);
  if (matrices_) matrices_.make_step_sizes(steps_);
  forget_elsewhere(codes_);
  const TakesPart takes_part = updated_now();
  const bool casts = fused_ && scales_ == nullptr;
  for_grads(OffloadedState::Use::change, [&](const StateSplit::Chunk& chunk) {
    if (casts && lane_ != nullptr) chunk_params_ = lane_->params(chunk);
    steps_.follow(decision);  // every update counts the step
    HostStep::update();
    if (casts) send_params(lane_, takes_part);
    collect_chunk(codes_, takes_part);
  });
  is_collected_ = true;
}

void ChunkedHostStep::cast_chunks(const StepDecision& decision) {
  if (fused_ && scales_ == nullptr) return;
  steps_.follow(decision);
  if (scales_ != nullptr) return code_chunks(codes_, updated_now(), false);
  cast_all();
}

void ChunkedHostStep::fill_stored(const FullState& state, const StateBlocks::Chosen& of_codes,
                                  const StateBlocks::Change& read, const ReadScales& read_scales) {
  steps_.load(state);
  offloaded_.for_chunks(
      OffloadedState::Use::fill, [&](const StateSplit::Chunk& chunk, const ChunkState& to) {
        const ChunkPlace place(*split_, chunk, to);
        for (const StateSlot slot : all_state_slots) {
          if (!of_codes[slot]) continue;
          for (const Piece& piece : chunk.pieces.blocks()) {
            const std::int64_t count = (piece.numel + state_block_numel - 1) / state_block_numel;
            read_scales(slot, piece.global_begin / state_block_numel,
                        {&place.scale(slot, piece), static_cast<std::size_t>(count)});
          }
        }
        tiles_->load_at(place, chunk.pieces, setup_.exec, of_codes, read, round_masters(0));
      });
}

void ChunkedHostStep::load(const FullState& state) {
  steps_.load(state);
  if (scales_ == nullptr) return cast_all();
  const bool are_made =
      codes_.size() > 1 && dequantises(state);  // those of parameters, by load_columns()
  code_chunks(are_made ? Span<Code>(codes_).last(1) : Span<Code>(codes_), every_tensor,
              !are_made && dequantises(state));
}

bool ChunkedHostStep::dequantises(const FullState& state) const {
  return setup_.scaling.initial_master == InitialMaster::dequantised &&
         !has_loaded_scales(state, setup_, scales_->blocks());
}

void ChunkedHostStep::cast_all() {
  if (lane_ != nullptr) lane_->begin();
  offloaded_.for_chunks(OffloadedState::Use::read,
                        [&](const StateSplit::Chunk& chunk, const ChunkState& state) {
                          work_on(chunk, state);
                          if (lane_ != nullptr) chunk_params_ = lane_->params(chunk);
                          cast_pieces();
                          send_params(lane_, every_tensor);
                        });
  if (lane_ != nullptr) lane_->end();
}

void ChunkedHostStep::send_params(OffloadStream* lane, const TakesPart& takes_part) {
  if (lane == nullptr) return;
  std::vector<Piece> made;
  for (const Piece& piece : chunk_->pieces.blocks()) {
    if (takes_part(piece.tensor)) made.push_back(piece);
  }
  lane->send(*chunk_, made);
}

void ChunkedHostStep::load_collected(const FullState& state) {
  steps_.load(state);
  if (!has_loaded_scales(state, setup_, scales_->blocks()))
    collect_all(Span<const Code>(codes_).first(1), every_tensor);
  is_collected_ = false;
}

void ChunkedHostStep::load_columns(const FullState& state) {
  steps_.load(state);
  if (dequantises(state)) code_chunks(Span<Code>(codes_).first(1), every_tensor, true);
  collect_all(Span<const Code>(codes_).last(1), every_tensor);
}

void ChunkedHostStep::collect_chunks(const StepDecision& decision) {
  if (is_collected_) return;
  steps_.follow(decision);
  collect_all(codes_, updated_now());
}

void ChunkedHostStep::forget_elsewhere(Span<const Code> codes) const {
  for (const Code& code : codes) std::ranges::fill(code.scales->elsewhere(), 0U);
}

void ChunkedHostStep::collect_all(Span<const Code> codes, const TakesPart& takes_part) {
  forget_elsewhere(codes);
  offloaded_.for_chunks(OffloadedState::Use::read,
                        [&](const StateSplit::Chunk& chunk, const ChunkState& state) {
                          work_on(chunk, state);
                          collect_chunk(codes, takes_part);
                        });
}

void ChunkedHostStep::collect_chunk(Span<const Code> codes, const TakesPart& takes_part) {
  for (const Code& code : codes) {
    ParamScales& scales = *code.scales;
    const Span<std::uint32_t> amax = scales.elsewhere();
    chunk_->pieces.run(setup_.exec, [&](const Exec& exec, const Piece& piece) {
      if (!takes_part(piece.tensor)) return;
      scales.for_runs(piece, [&](const Piece& run) {
        ops_.block_amax(exec, scales.blocks().grid(run.tensor), setup_.scaling.value,
                        run.tensor_begin, state_of(run).master, scales.of_tensor(amax, run.tensor));
      });
    });
  }
}

template <class T>
Span<T> ChunkedHostStep::codes_of(const Code& code, const Piece& run) const {
  if (code.lane == nullptr) return code.params->as<T>(run);
  return {reinterpret_cast<T*>(code.chunk + at(run)), static_cast<std::size_t>(run.numel)};
}

void ChunkedHostStep::code_chunks(Span<Code> codes, const TakesPart& takes_part, bool dequantise) {
  const auto code_run = [&]<class T>(const Exec& exec, const Code& code, Span<const float> scale,
                                     Span<const float> scale_inv, const Piece& run, T) {
    const ParamScales& scales = *code.scales;
    const BlockGrid& grid = scales.blocks().grid(run.tensor);
    const Span<float> master = state_of(run).master;
    ops_.quantize(exec, {grid, setup_.scaling.value, Overflow::saturate}, run.tensor_begin, master,
                  scales.of_tensor(scale, run.tensor), codes_of<T>(code, run));
    if (!dequantise) return;
    ops_.dequantize(exec, grid, run.tensor_begin, codes_of<T>(code, run),
                    scales.of_tensor(scale_inv, run.tensor), master);
  };
  std::vector<std::vector<float>> scale, scale_inv;
  for (const Code& code : codes) {
    scale.push_back(code.scales->host_scale());
    scale_inv.push_back(dequantise ? code.scales->host_scale_inv() : std::vector<float>{});
    if (code.lane != nullptr) code.lane->begin();
  }
  offloaded_.for_chunks(dequantise ? OffloadedState::Use::change : OffloadedState::Use::read,
                        [&](const StateSplit::Chunk& chunk, const ChunkState& state) {
                          work_on(chunk, state);
                          for (std::size_t i = 0; i < codes.size(); ++i) {
                            Code& code = codes[i];
                            if (code.lane != nullptr) code.chunk = code.lane->params(chunk);
                            chunk.pieces.run(
                                setup_.exec, [&](const Exec& exec, const Piece& piece) {
                                  if (!takes_part(piece.tensor)) return;
                                  code.scales->for_runs(piece, [&](const Piece& run) {
                                    setup_.param_dtype == DType::e5m2
                                        ? code_run(exec, code, scale[i], scale_inv[i], run, e5m2{})
                                        : code_run(exec, code, scale[i], scale_inv[i], run, e4m3{});
                                  });
                                });
                            send_params(code.lane, takes_part);
                          }
                        });
  for (const Code& code : codes) {
    if (code.lane != nullptr) code.lane->end();
  }
}

}  // namespace zeroproof::cuda
