#include "verification/training/gradients/provided_layers.hpp"

#include <cstring>

#include "common/base/error.hpp"
#include "common/step/param_scaling.hpp"
#include "verification/compare/compare.hpp"

namespace zeroproof::verification {

void ProvidedLayers::set_scales(Span<const float> scale_inv) {
  if (!begun_.empty()) note("set scales after a micro-batch had begun");
  const TensorView theirs{const_cast<float*>(scale_inv.data()), DType::fp32,
                          static_cast<std::int64_t>(scale_inv.size())};
  scales_set_ = true;
  if (theirs.numel != scale_inv_.numel) {
    return note("set " + std::to_string(theirs.numel) + " scales of " +
                std::to_string(scale_inv_.numel) + " blocks");
  }
  for (std::int64_t block = 0; block < theirs.numel; ++block) {
    const std::uint64_t got = element_bits(theirs, block), want = element_bits(scale_inv_, block);
    if (got == want || (is_nan_bits(DType::fp32, got) && is_nan_bits(DType::fp32, want))) continue;
    return note("set a scale of block " + std::to_string(block) +
                " that is not that of the cast: got " + show_bits(DType::fp32, got) + ", want " +
                show_bits(DType::fp32, want));
  }
}

void ProvidedLayers::begin(std::int64_t micro_batch) {
  if (has_scales(expected_.dtype) && !scales_set_)
    note("began micro-batch " + std::to_string(micro_batch) + " before it had set the scales");
  if (!begun_.empty() && next_ != 2 * visits_.size()) {
    note("began micro-batch " + std::to_string(micro_batch) +
         " before the last one had gone through all layers");
  }
  begun_.push_back(micro_batch);
  next_ = 0;
}

void ProvidedLayers::look_at(int unit, const TensorView& param, const char* pass) {
  const std::size_t count = visits_.size();
  const bool in_order = !begun_.empty() && next_ < 2 * count &&
                        visits_[next_ < count ? next_ : 2 * count - 1 - next_] == unit;
  const std::string where = std::string(pass) + " visit of unit " + std::to_string(unit);
  if (!in_order) note("made the " + where + " out of order");
  ++next_;
  const FlatRange& range = units_[unit];
  if (param.numel != range.numel() || param.dtype != expected_.dtype) {
    return note("showed the " + where + " " + std::to_string(param.numel) + " parameters of " +
                std::to_string(range.numel()));
  }
  for (const Piece& piece : layout_.pieces({range})) {
    const std::int64_t width = num_bytes(param.dtype);
    const auto* wanted = static_cast<const std::byte*>(expected_.data) + piece.global_begin * width;
    const auto* shown = static_cast<const std::byte*>(param.data) + piece.local_begin * width;
    if (std::memcmp(wanted, shown, static_cast<std::size_t>(piece.numel * width)) == 0) continue;
    std::int64_t first = 0;
    while (std::memcmp(wanted + first * width, shown + first * width,
                       static_cast<std::size_t>(width)) == 0)
      ++first;
    const std::int64_t global = piece.global_begin + first;
    return note("showed the " + where + " parameters that are not the gathered ones, first at " +
                layout_.tensors()[piece.tensor].name + layout_.coordinates(global) + ": got " +
                show_bits(param.dtype, element_bits(param, piece.local_begin + first)) + ", want " +
                show_bits(param.dtype, element_bits(expected_, global)));
  }
}

void ProvidedLayers::forward(int unit, const TensorView& param) { look_at(unit, param, "forward"); }

void ProvidedLayers::backward(int unit, const TensorView& param, const TensorView& grad) {
  look_at(unit, param, "backward");
  ZP_CHECK(!begun_.empty(), ErrorCode::invalid_argument,
           "a backward visit came before any micro-batch began", "there is no gradient yet",
           "call begin first");
  const GradCache::Grad& leaf = provider_.micro_batch_grad(begun_.back());
  const TensorView whole = leaf.view();
  const FlatRange& range = units_[unit];
  if (grad.numel != range.numel() || grad.dtype != whole.dtype) {
    return note("offers unit " + std::to_string(unit) + " a buffer for " +
                std::to_string(grad.numel) + " gradients of " + std::to_string(range.numel()));
  }
  const std::int64_t width = num_bytes(grad.dtype);
  for (const Piece& piece : layout_.pieces({range})) {
    for (const std::int64_t i : {piece.local_begin, piece.local_begin + piece.numel - 1}) {
      if (is_nan_bits(grad.dtype, element_bits(grad, i))) continue;
      note("offers unit " + std::to_string(unit) +
           " a gradient buffer that was not poisoned since its last use");
    }
    std::memcpy(static_cast<std::byte*>(grad.data) + piece.local_begin * width,
                static_cast<const std::byte*>(whole.data) + piece.global_begin * width,
                static_cast<std::size_t>(piece.numel * width));
  }
}

std::string ProvidedLayers::finish(const std::vector<std::int64_t>& expected) {
  if (!begun_.empty() && next_ != 2 * visits_.size()) note("left a micro-batch unfinished");
  note(wrong_micro_batches(begun_, expected));
  return problem_;
}

}  // namespace zeroproof::verification
