#pragma once
// Gradients that cost nothing to make, whole or layer by layer, for counts of bytes.

#include <cstddef>
#include <cstring>
#include <limits>
#include <vector>

#include "common/base/float_formats.hpp"
#include "common/base/guarded_buffer.hpp"
#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::tests {

/// Zeros; with `overflows` the first element of micro-batch 0 is infinite. Layer by layer: units of `tensors_per_unit`
/// tensors, and the first unit is visited once more at the end (tied parameters).
class ZeroLeaves final : public LeafSource, public LayeredModel {
 public:
  ZeroLeaves(const FlatLayout& layout, DType dtype, int tensors_per_unit, bool overflows)
      : dtype_(dtype), overflows_(overflows), whole_(layout.padded_numel(), dtype) {
    const auto& tensors = layout.tensors();
    for (std::size_t t = 0; tensors_per_unit > 0 && t < tensors.size();) {
      const std::size_t next = t + static_cast<std::size_t>(tensors_per_unit);
      const bool last = next >= tensors.size();
      units_.push_back({tensors[t].begin, last ? layout.padded_numel() : tensors[next].begin});
      visits_.push_back(static_cast<int>(visits_.size()));
      t = next;
    }
    if (units_.size() > 1) visits_.push_back(0);
  }

  TensorView leaf(std::int64_t micro_batch) override {
    fill(micro_batch, whole_.view());
    return whole_.view();
  }
  std::int64_t num_tokens(std::int64_t) const override { return 3; }
  LayeredModel* layers() override { return units_.empty() ? nullptr : this; }

  const std::vector<FlatRange>& units() const override { return units_; }
  const std::vector<int>& visits() const override { return visits_; }
  void begin(std::int64_t micro_batch) override { micro_batch_ = micro_batch; }
  void forward(int, const TensorView&) override {}
  void backward(int unit, const TensorView&, const TensorView& grad) override {
    fill(unit == 0 ? micro_batch_ : -1, grad);
  }

 private:
  void fill(std::int64_t micro_batch, const TensorView& view) const {
    if (view.numel == 0) return;
    std::memset(view.data, 0, static_cast<std::size_t>(view.num_bytes()));
    if (!overflows_ || micro_batch != 0) return;
    const float infinite = std::numeric_limits<float>::infinity();
    if (dtype_ == DType::fp32) {
      *static_cast<float*>(view.data) = infinite;
    } else {
      *static_cast<bf16*>(view.data) = to_bf16(infinite);
    }
  }

  const DType dtype_;
  const bool overflows_;
  GuardedBuffer whole_;
  std::int64_t micro_batch_ = 0;
  std::vector<FlatRange> units_;
  std::vector<int> visits_;
};

}  // namespace zeroproof::tests
