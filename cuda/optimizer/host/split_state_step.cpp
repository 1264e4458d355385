#include "cuda/optimizer/host/split_state_step.hpp"

#include <algorithm>

#include "cuda/optimizer/state/state_ranges.hpp"

namespace zeroproof::cuda {

SplitStateStep::SplitStateStep(RankShard& shard, OffloadedState& state, const MemorySpace& space,
                               const MakeLocalStep& make, const KernelTable& ops,
                               const MakeOffloadedStep& make_offloaded, OffloadedGradBuffer* grads)
    : shard_(shard),
      state_(state),
      space_(space),
      grads_(grads),
      resident_(make(shard)),
      blocks_(blocks_of_state(shard.setup, shard.setup.layout->pieces(shard.ranges))) {
  if (space.kind == Space::device) {
    const Offload& offload = shard.setup.offload;
    const float* const grad = offload.moves_grads() ? nullptr : shard.grad->as<float>().data();
    lane_ =
        std::make_unique<OffloadStream>(*shard.split, grad, shard.params.shard(), offload.overlap);
  }
  offloaded_ = make_offloaded ? make_offloaded(shard, state, lane_.get(), resident_->fused(), ops)
                              : std::make_unique<ChunkedHostStep>(shard, state, lane_.get(),
                                                                  resident_->fused(), ops);
}

void SplitStateStep::load(const FullState& state) {
  load_with(state, [&] { resident_->load(state); });
}

void SplitStateStep::load_with(const FullState& state, const std::function<void()>& load_resident) {
  if (shard_.scales != nullptr) offloaded_->load_collected(state);
  if (shard_.column_scales != nullptr)
    shard_.column_scales->set_recompute_elsewhere([&] { offloaded_->load_columns(state); });
  load_resident();
  if (shard_.column_scales != nullptr) shard_.column_scales->set_recompute_elsewhere({});
  offloaded_->load(state);
  if (!shown_.empty()) show();
}

void SplitStateStep::load_stored(const FullState& state, const StateBlocks::Chosen& of_codes,
                                 const StateBlocks::Change& read) {
  load_with(state, [&] { resident_->load_stored(state, of_codes, read); });
}

void SplitStateStep::check_grads() const {
  if (grads_ != nullptr) grads_->check(shard_.setup.exec);
}

void SplitStateStep::seal_grads() {
  if (grads_ != nullptr) grads_->seal(shard_.setup.exec);
}

void SplitStateStep::begin_sum() {
  if (grads_ != nullptr) grads_->unseal();
  resident_->begin_sum();
}

void SplitStateStep::end_sum(const std::optional<TensorView>& leaf, const GradTarget& target) {
  resident_->end_sum(leaf, target);
  if (!leaf) seal_grads();  // otherwise it stays in the source's memory
}

void SplitStateStep::unscale() {
  check_grads();
  resident_->unscale();
  if (!fused()) seal_grads();
}

void SplitStateStep::clip() {
  check_grads();
  resident_->clip();
  if (!fused()) seal_grads();
}

void SplitStateStep::prepare_update() {
  if (traits_of(shard_.setup.hyper.rule).trust_ratio) {
    check_grads();
    resident_->add_trust_norms(offloaded_->trust_norms(resident_->decision()));
  }
  if (traits_of(shard_.setup.hyper.rule).matrices) {
    check_grads();
    offloaded_->move_momenta(resident_->decision());
  }
  resident_->prepare_update();
}

void SplitStateStep::update() {
  check_grads();
  const StepDecision decision = resident_->decision();  // before the step is counted
  resident_->update();                                  // on a device this only enqueues it
  offloaded_->update_chunks(decision);
  if (!shown_.empty()) show();
}

void SplitStateStep::cast() {
  if (shard_.scales != nullptr) offloaded_->collect_chunks(resident_->decision());
  resident_->cast();
  if (!fused() || shard_.scales != nullptr) offloaded_->cast_chunks(resident_->decision());
}

const GuardedBuffer& SplitStateStep::resident_buffer(BufferId id) const {
  if (id == BufferId::master) return *shard_.master;
  if (const std::optional<StateSlot> slot = slot_of(id)) return shard_.state[*slot];
  return shard_.state.scales(slot_of_scales(id).value());
}

std::vector<ExposedBuffer> SplitStateStep::exposed(Phase phase) {
  std::vector<ExposedBuffer> buffers = resident_->exposed(phase);
  if (phase == Phase::reduce) seal_grads();  // also a gradient that stayed in place
  if (phase != Phase::update) return buffers;
  if (shown_.empty()) {
    for (const OffloadedBuffer& buffer : offloaded_buffers(shard_.setup)) {
      const std::int64_t numel =
          is_state_scale(buffer.id) ? blocks_.count() : shard_.split->numel();
      shown_.push_back(
          {buffer.id, GuardedBuffer(numel, buffer.dtype, BufferFill::poison, space_.memory)});
    }
    show();
  }
  for (ExposedBuffer& buffer : buffers) {
    const auto shown = std::ranges::find(shown_, buffer.id, &Shown::id);
    if (shown == shown_.end()) continue;
    buffer.view = shown->whole.view();
    if (is_state_scale(buffer.id)) buffer.ranges = blocks_.ranges();
  }
  return buffers;
}

template <class Body>
void SplitStateStep::for_resident(const Shown& shown, const Body& body) const {
  auto* const kept = static_cast<std::byte*>(resident_buffer(shown.id).data());
  const std::int64_t width = num_bytes(shown.whole.dtype());
  if (is_state_scale(shown.id)) {
    std::int64_t place = 0;
    for (const FlatRange& blocks : shard_.state.blocks().ranges()) {
      body(shown.at(blocks_.place(blocks.begin)), kept + place * width, blocks.numel() * width);
      place += blocks.numel();
    }
    return;
  }
  for (const StateSplit::Stretch& stretch : shard_.split->stretches()) {
    if (!stretch.offloaded)
      body(shown.at(stretch.local_begin), kept + stretch.place * width, stretch.numel * width);
  }
}

template <class Body>
void SplitStateStep::for_chunk(const Shown& shown, const StateSplit::Chunk& chunk,
                               const ChunkState& state, const Body& body) const {
  auto* const kept = static_cast<std::byte*>(state[shown.id].data);
  const std::int64_t width = num_bytes(shown.whole.dtype());
  if (is_state_scale(shown.id)) {
    for (const Piece& piece : chunk.pieces.blocks()) {
      const std::int64_t place =
          (shard_.split->place(piece.local_begin) - chunk.begin) / state_block_numel;
      const std::int64_t count = (piece.numel + state_block_numel - 1) / state_block_numel;
      const std::int64_t block = piece.global_begin / state_block_numel;
      body(shown.at(blocks_.place(block)), kept + place * width, count * width);
    }
    return;
  }
  for (const StateSplit::Stretch& stretch : chunk.stretches)
    body(shown.at(stretch.local_begin), kept + (stretch.place - chunk.begin) * width,
         stretch.numel * width);
}

void SplitStateStep::show() {
  for (const Shown& shown : shown_) for_resident(shown, space_.copy);
  state_.for_chunks(OffloadedState::Use::read,
                    [&](const StateSplit::Chunk& chunk, const ChunkState& state) {
                      for (const Shown& shown : shown_)
                        for_chunk(shown, chunk, state, space_.from_host);
                    });
}

void SplitStateStep::overwritten(Phase phase) {
  resident_->overwritten(phase);
  if (phase == Phase::reduce || phase == Phase::unscale || phase == Phase::clip) seal_grads();
  if (phase == Phase::update && !shown_.empty()) take_shown();
  if (phase == Phase::update) offloaded_->forget();
}

void SplitStateStep::take_shown() {
  for (const Shown& shown : shown_) {
    for_resident(shown, [&](const std::byte* whole, std::byte* kept, std::int64_t bytes) {
      space_.copy(kept, whole, bytes);
    });
  }
  state_.for_chunks(OffloadedState::Use::change,
                    [&](const StateSplit::Chunk& chunk, const ChunkState& state) {
                      for (const Shown& shown : shown_) {
                        for_chunk(shown, chunk, state,
                                  [&](const std::byte* whole, std::byte* kept, std::int64_t bytes) {
                                    space_.to_host(kept, whole, bytes);
                                  });
                      }
                    });
}

}  // namespace zeroproof::cuda
