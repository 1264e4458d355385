#pragma once
// A layer-by-layer model on top of gradients computed elsewhere; it checks the parameters that a
// candidate passes to each layer.

#include <string>
#include <vector>

#include "common/base/guarded_buffer.hpp"
#include "common/step/layered_model.hpp"
#include "verification/training/gradients/grad_cache.hpp"

namespace zeroproof::verification {

/// Returns the gradients of a provider unit by unit, and judges the driver: parameters of every
/// visit must be the bits of `expected`, gradient buffers must be poisoned on arrival, and the
/// calls must come in the order of LayeredModel.
class ProvidedLayers final : public LayeredModel {
 public:
  /// expected: [padded_numel], the parameters gathered by the harness, and the scales of their
  /// blocks if any; both must outlive this object.
  ProvidedLayers(const FlatLayout& layout, const std::vector<FlatRange>& units,
                 const std::vector<int>& visits, const TensorView& expected,
                 const TensorView& scale_inv, GradProvider& provider)
      : layout_(layout),
        units_(units),
        visits_(visits),
        expected_(expected),
        scale_inv_(scale_inv),
        provider_(provider) {}

  const std::vector<FlatRange>& units() const override { return units_; }
  const std::vector<int>& visits() const override { return visits_; }
  void set_scales(Span<const float> scale_inv) override;
  void begin(std::int64_t micro_batch) override;
  void forward(int unit, const TensorView& param) override;
  void backward(int unit, const TensorView& param, const TensorView& grad) override;

  /// Violations of the driver, "" if none; `expected`: the micro-batches of this rank.
  std::string finish(const std::vector<std::int64_t>& expected);

 private:
  void look_at(int unit, const TensorView& param, const char* pass);
  void note(const std::string& problem) {
    if (problem_.empty()) problem_ = problem;
  }

  const FlatLayout& layout_;
  const std::vector<FlatRange>& units_;
  const std::vector<int>& visits_;
  TensorView expected_, scale_inv_;
  GradProvider& provider_;
  std::vector<std::int64_t> begun_;
  std::size_t next_ = 0;  ///< call of this micro-batch: visits forward, then visits backward
  bool scales_set_ = false;
  std::string problem_;
};

}  // namespace zeroproof::verification
