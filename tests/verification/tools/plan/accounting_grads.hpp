#pragma once
// Gradients of zeros, whole or layer by layer, for counts of bytes.

#include <cstddef>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "common/base/float_formats.hpp"
#include "common/base/guarded_buffer.hpp"
#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::tests {

/// Units of several tensors each.
inline std::vector<FlatRange> grouped_units(const FlatLayout& layout,
                                            std::size_t tensors_per_unit) {
  const auto& tensors = layout.tensors();
  std::vector<FlatRange> units;
  for (std::size_t t = 0; t < tensors.size(); t += tensors_per_unit) {
    const std::size_t next = t + tensors_per_unit;
    units.push_back(
        {tensors[t].begin, next < tensors.size() ? tensors[next].begin : layout.padded_numel()});
  }
  return units;
}

/// Zeros; with `overflows` the first element of micro-batch 0 is infinite. Whole without units;
/// otherwise layer by layer, in the order of `visits`, which may visit a unit more than once.
class ZeroGrads final : public GradSource, public LayeredModel {
 public:
  ZeroGrads(const FlatLayout& layout, DType dtype, bool overflows, std::vector<FlatRange> units,
            std::vector<int> visits)
      : dtype_(dtype),
        overflows_(overflows),
        whole_(layout.padded_numel(), dtype),
        units_(std::move(units)),
        visits_(std::move(visits)) {}

  TensorView micro_batch_grad(std::int64_t micro_batch) override {
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
    } else if (dtype_ == DType::fp16) {
      *static_cast<fp16*>(view.data) = to_fp16(infinite);
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
