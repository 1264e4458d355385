#include "verification/faults/controls/wrapped_optimizer.hpp"

#include <cstring>

#include "common/base/float_formats.hpp"

namespace zeroproof::verification {
namespace {

/// Copies every micro-batch gradient and fills its padding.
class FilledGrads final : public GradSource {
 public:
  FilledGrads(GradSource& inner, const std::vector<bool>& padding, float junk,
              std::int64_t& changed)
      : inner_(inner), padding_(padding), junk_(junk), changed_(changed) {}

  TensorView micro_batch_grad(std::int64_t micro_batch) override {
    const TensorView from = inner_.micro_batch_grad(micro_batch);
    const auto* bytes = static_cast<const std::byte*>(from.data);
    copy_.assign(bytes, bytes + from.num_bytes());
    const TensorView copy{copy_.data(), from.dtype, from.numel};
    for (std::size_t i = 0; i < padding_.size(); ++i) {
      if (!padding_[i]) continue;
      store_element(copy, static_cast<std::int64_t>(i), junk_);
      ++changed_;
    }
    return copy;
  }

  std::int64_t num_tokens(std::int64_t micro_batch) const override {
    return inner_.num_tokens(micro_batch);
  }
  bool has_grad(std::int64_t micro_batch, std::int64_t tensor) const override {
    return inner_.has_grad(micro_batch, tensor);
  }

 private:
  GradSource& inner_;
  const std::vector<bool>& padding_;
  float junk_;
  std::int64_t& changed_;
  std::vector<std::byte> copy_;
};

}  // namespace

WrappedOptimizer::WrappedOptimizer(std::unique_ptr<DistributedOptimizer> inner,
                                   const FlatLayout& layout)
    : inner_(std::move(inner)), padding_(static_cast<std::size_t>(layout.padded_numel()), true) {
  for (const Piece& piece : layout.pieces({{0, layout.padded_numel()}})) {
    for (std::int64_t i = 0; i < piece.numel; ++i) padding_[piece.global_begin + i] = false;
  }
}

void Scribbler::run_phase(Phase phase, GradSource& leaves) {
  if (phase == Phase::reduce && after_skip_) {
    for (const ExposedBuffer& buffer : storage()) {
      const bool gradient = buffer.id == BufferId::grad_sum ||
                            buffer.id == BufferId::unscaled_grad || buffer.id == BufferId::grad;
      if (!gradient || buffer.view.dtype != DType::fp32) continue;
      auto* values = static_cast<float*>(buffer.view.data);
      for (const Piece& piece : layout_.pieces(buffer.ranges)) {  // padding is unchanged
        for (std::int64_t i = 0; i < piece.numel; ++i) values[piece.local_begin + i] = 3.0F;
        scribbled_ += piece.numel;
      }
    }
  }
  WrappedOptimizer::run_phase(phase, leaves);
  if (phase == Phase::prepare) return;
  after_skip_ = skipped();
}

std::vector<float> PaddingFiller::filled(Span<const float> values) {
  std::vector<float> copy(values.begin(), values.end());
  for (std::size_t i = 0; i < copy.size(); ++i) {
    if (!padding()[i]) continue;
    copy[i] = junk_;
    ++changed_;
  }
  return copy;
}

void PaddingFiller::load_state(const FullState& state) {
  const std::vector<float> master = filled(state.master);
  const auto slots = per_slot([&](StateSlot slot) { return filled(state.slots[slot]); });
  FullState copy = state;
  copy.master = master;
  for (const StateSlot slot : all_state_slots) copy.slots[slot] = slots[slot];
  inner_->load_state(copy);
}

void PaddingFiller::run_phase(Phase phase, GradSource& leaves) {
  FilledGrads filled(leaves, padding(), junk_, changed_);
  inner_->run_phase(phase, filled);
}

}  // namespace zeroproof::verification
