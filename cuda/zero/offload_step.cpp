#include "cuda/zero/offload_step.hpp"

namespace zeroproof::cuda {

OffloadStep::OffloadStep(RankShard& shard, OffloadedState& state, const MemorySpace& space,
                         const MakeLocalStep& make, const PhaseOps& ops,
                         const MakeOffloadedStep& make_offloaded, GradHome* grads)
    : shard_(shard), state_(state), space_(space), grads_(grads), resident_(make(shard)) {
  if (space.kind == Space::device) {
    const Offload& offload = shard.setup.offload;
    const float* const grad = offload.moves_grads() ? nullptr : shard.grad->as<float>().data();
    lane_ = std::make_unique<ChunkLane>(*shard.split, grad, shard.params.shard(), offload.overlap);
  }
  offloaded_ = make_offloaded
                   ? make_offloaded(shard, state, lane_.get(), resident_->fused(), ops)
                   : std::make_unique<OffloadedStep>(shard, state, lane_.get(), resident_->fused(), ops);
}

void OffloadStep::load(const FullState& state) {
  if (shard_.scales != nullptr) offloaded_->load_collected(state);
  resident_->load(state);
  offloaded_->load(state);
  if (!shown_.empty()) show();
}

void OffloadStep::check_grads() const {
  if (grads_ != nullptr) grads_->check(shard_.setup.exec);
}

void OffloadStep::seal_grads() {
  if (grads_ != nullptr) grads_->seal(shard_.setup.exec);
}

void OffloadStep::begin_sum() {
  if (grads_ != nullptr) grads_->unseal();
  resident_->begin_sum();
}

void OffloadStep::end_sum(const std::optional<TensorView>& leaf, const GradTarget& target) {
  resident_->end_sum(leaf, target);
  if (!leaf) seal_grads();  // else it stays where it came from
}

void OffloadStep::unscale() {
  check_grads();
  resident_->unscale();
  if (!fused()) seal_grads();
}

void OffloadStep::clip() {
  check_grads();
  resident_->clip();
  if (!fused()) seal_grads();
}

void OffloadStep::update() {
  check_grads();
  const StepDecision decision = resident_->decision();  // before the step is counted
  resident_->update();                                  // on a device it only begins here
  offloaded_->update_chunks(decision);
  if (!shown_.empty()) show();
}

void OffloadStep::cast() {
  if (shard_.scales != nullptr) offloaded_->collect_chunks(resident_->decision());
  resident_->cast();
  if (!fused() || shard_.scales != nullptr) offloaded_->cast_chunks(resident_->decision());
}

const GuardedBuffer& OffloadStep::resident_buffer(BufferId id) const {
  return id == BufferId::master ? *shard_.master : shard_.state[id];
}

std::vector<ExposedBuffer> OffloadStep::exposed(Phase phase) {
  std::vector<ExposedBuffer> buffers = resident_->exposed(phase);
  if (phase == Phase::reduce) seal_grads();  // a leaf that stayed has been written there
  if (phase != Phase::update) return buffers;
  if (shown_.empty()) {
    std::int64_t numel = 0;
    for (const FlatRange& range : shard_.ranges) numel += range.numel();
    for (const BufferId id : offloaded_buffers(shard_.setup.hyper)) {
      shown_.push_back({id, GuardedBuffer(numel, DType::fp32, BufferFill::poison, space_.memory)});
    }
    show();
  }
  for (ExposedBuffer& buffer : buffers) {
    for (const Shown& shown : shown_) {
      if (buffer.id == shown.id) buffer.view = shown.whole.view();
    }
  }
  return buffers;
}

void OffloadStep::show() {
  constexpr std::int64_t width = sizeof(float);
  for (const Shown& shown : shown_) {
    const float* from = resident_buffer(shown.id).as<float>().data();
    for (const StateSplit::Stretch& stretch : shard_.split->stretches()) {
      if (stretch.offloaded) continue;
      space_.copy(shown.whole.as<float>().data() + stretch.local_begin, from + stretch.place,
                  stretch.numel * width);
    }
  }
  state_.for_chunks(OffloadedState::Use::read,
                    [&](const StateSplit::Chunk& chunk, const host::FusedState& state) {
                      for (const Shown& shown : shown_) {
                        const float* from = buffer_of(state, shown.id).data();
                        for (const StateSplit::Stretch& stretch : chunk.stretches) {
                          space_.from_host(shown.whole.as<float>().data() + stretch.local_begin,
                                           from + stretch.place - chunk.begin, stretch.numel * width);
                        }
                      }
                    });
}

void OffloadStep::overwritten(Phase phase) {
  resident_->overwritten(phase);
  if (phase == Phase::reduce || phase == Phase::unscale || phase == Phase::clip) seal_grads();
  if (phase == Phase::update && !shown_.empty()) take_shown();
  if (phase == Phase::update) offloaded_->forget();
}

void OffloadStep::take_shown() {
  constexpr std::int64_t width = sizeof(float);
  for (const Shown& shown : shown_) {
    float* to = resident_buffer(shown.id).as<float>().data();
    for (const StateSplit::Stretch& stretch : shard_.split->stretches()) {
      if (stretch.offloaded) continue;
      space_.copy(to + stretch.place, shown.whole.as<float>().data() + stretch.local_begin,
                  stretch.numel * width);
    }
  }
  state_.for_chunks(
      OffloadedState::Use::change, [&](const StateSplit::Chunk& chunk, const host::FusedState& state) {
        for (const Shown& shown : shown_) {
          float* to = buffer_of(state, shown.id).data();
          for (const StateSplit::Stretch& stretch : chunk.stretches) {
            space_.to_host(to + stretch.place - chunk.begin,
                           shown.whole.as<float>().data() + stretch.local_begin, stretch.numel * width);
          }
        }
      });
}

}  // namespace zeroproof::cuda
