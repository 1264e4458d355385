#include "cuda/faults/wrong_leaves.hpp"

#include <algorithm>
#include <cmath>

#include "common/base/float_formats.hpp"

namespace zeroproof::cuda {
namespace {

float wide(const TensorView& view, std::size_t i) {
  if (view.dtype == DType::bf16) return to_float(static_cast<const bf16*>(view.data)[i]);
  if (view.dtype == DType::fp16) return to_float(static_cast<const fp16*>(view.data)[i]);
  return static_cast<const float*>(view.data)[i];
}

void store(const TensorView& view, std::size_t i, float value) {
  if (view.dtype == DType::bf16) {
    static_cast<bf16*>(view.data)[i] = to_bf16(value);
  } else if (view.dtype == DType::fp16) {
    static_cast<fp16*>(view.data)[i] = to_fp16(value);
  } else {
    static_cast<float*>(view.data)[i] = value;
  }
}

}  // namespace

LeafSource& Saboteur::Leaves::over(LeafSource& honest, int log2_loss_scale) {
  honest_ = &honest;
  log2_loss_scale_ = log2_loss_scale;
  const auto numel = static_cast<std::size_t>(setup_.layout->padded_numel());
  own_sum_.assign(numel, 0.0F);
  if (old_.empty()) old_.assign(numel, 0.0F);
  return *this;
}

void Saboteur::Leaves::scale(float factor) {
  for (float& value : values_) value *= factor;
}

/// Z46: to max_norm, every micro-batch by itself.
void Saboteur::Leaves::clip() {
  double sum = 0;
  for (const Piece& piece : setup_.layout->pieces({{0, setup_.layout->padded_numel()}})) {
    for (std::int64_t i = piece.global_begin; i < piece.global_begin + piece.numel; ++i) {
      sum += std::pow(static_cast<double>(values_[static_cast<std::size_t>(i)]), 2);
    }
  }
  const double norm = std::ldexp(std::sqrt(sum), -log2_loss_scale_);
  const double limit = setup_.hyper.max_norm.value_or(0);
  if (limit > 0 && norm > limit) scale(static_cast<float>(limit / norm));
}

/// Z65: the reduction runs before the last micro-batch has arrived, so that one counts in the next step.
void Saboteur::Leaves::swap_with_old() { std::swap(values_, old_); }

TensorView Saboteur::Leaves::leaf(std::int64_t micro_batch) {
  if (fault_ == "leaf-computed-twice") honest_->leaf(micro_batch);
  const TensorView honest = honest_->leaf(micro_batch);
  values_.resize(static_cast<std::size_t>(honest.numel));
  for (std::size_t i = 0; i < values_.size(); ++i) values_[i] = wide(honest, i);
  if (fault_ == "leaf-edited" && honest.numel > 0) *static_cast<std::byte*>(honest.data) ^= std::byte{1};

  const bool last = micro_batch == setup_.micro_batches - 1;
  const int world = setup_.comm->world_size();
  if (fault_ == "Z46-clip-per-microbatch") clip();
  if (fault_ == "Z64-accumulator-overwritten" && !last) scale(0);
  if (fault_ == "Z65-boundary-microbatch-leaks" && last) swap_with_old();
  if (fault_ == "Z66-doubles-each-microbatch" && world == 1) {
    scale(static_cast<float>(std::ldexp(1.0, static_cast<int>(setup_.micro_batches - micro_batch))));
  }
  if (fault_ == "Z75-transpose-of-sum") scale(static_cast<float>(world));
  for (std::size_t i = 0; i < values_.size(); ++i) own_sum_[i] += values_[i];

  if (narrow_.numel() != honest.numel) narrow_ = GuardedBuffer(honest.numel, honest.dtype);
  for (std::size_t i = 0; i < values_.size(); ++i) store(narrow_.view(), i, values_[i]);
  return narrow_.view();
}

}  // namespace zeroproof::cuda
