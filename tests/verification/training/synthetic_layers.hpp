#pragma once
// A cheap model: gradients are integers' bits plus a small part of their parameter, so that stale
// or poisoned parameters are detected, for any number of ranks and elements.

#include <cstdint>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/float_formats.hpp"
#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::tests {

/// Multiples of 2^-23 in [-1, 1), well mixed [Steele, Lea, Flood 2014: the finalizer of SplitMix64].
inline float mixed(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t z = seed * 0x9E3779B97F4A7C15ULL + index;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  z = z ^ (z >> 31);
  return static_cast<float>(static_cast<std::int32_t>(z >> 40) - (1 << 23)) * 0x1p-23F;
}

/// bf16 parameters, fp32 micro-batch gradients; every tensor of the layout is a unit.
class SyntheticLayers final : public LayeredModel, public GradSource {
 public:
  SyntheticLayers(const FlatLayout& layout, std::int64_t step) : layout_(layout), step_(step) {
    const auto& tensors = layout.tensors();
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      const bool last = t + 1 == tensors.size();
      units_.push_back({tensors[t].begin, last ? layout.padded_numel() : tensors[t + 1].begin});
      visits_.push_back(static_cast<int>(t));
    }
  }

  const std::vector<FlatRange>& units() const override { return units_; }
  const std::vector<int>& visits() const override { return visits_; }
  void begin(std::int64_t micro_batch) override { micro_batch_ = micro_batch; }
  void forward(int, const TensorView&) override {}

  void backward(int unit, const TensorView& param, const TensorView& grad) override {
    const TensorSlot& slot = layout_.tensors()[unit];
    const auto* from = static_cast<const bf16*>(param.data);
    auto* to = static_cast<float*>(grad.data);
    const auto seed = static_cast<std::uint64_t>(step_ * 4096 + micro_batch_);
    for (std::int64_t i = 0; i < slot.numel; ++i) {
      to[i] = mixed(seed, static_cast<std::uint64_t>(slot.begin + i)) + to_float(from[i]) * 0x1p-7F;
    }
  }

  LayeredModel* layers() override { return this; }
  TensorView micro_batch_grad(std::int64_t) override {
    fail(ErrorCode::internal, "a whole leaf was asked for", "this model runs layer by layer",
         "use layers()");
  }

 private:
  const FlatLayout& layout_;
  std::int64_t step_;
  std::int64_t micro_batch_ = 0;
  std::vector<FlatRange> units_;
  std::vector<int> visits_;
};

}  // namespace zeroproof::tests
