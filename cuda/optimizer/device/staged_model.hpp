#pragma once
// A host model for parameters and gradients on a device.

#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/guarded_buffer.hpp"
#include "common/step/layered_model.hpp"
#include "cuda/comm/memory/memory_space.hpp"

namespace zeroproof::cuda {

/// Every visit waits for the parameters and computes on copies of them. A gradient is copied back
/// to its source; its content before the visit is the model's first operand.
class StagedModel final : public LayeredModel {
 public:
  StagedModel(LayeredModel& model, const MemorySpace& space) : model_(model), space_(space) {}

  const std::vector<FlatRange>& units() const override { return model_.units(); }
  const std::vector<int>& visits() const override { return model_.visits(); }
  void set_scales(Span<const float> scale_inv) override {
    scales_.resize(scale_inv.size());
    space_.to_host(scales_.data(), scale_inv.data(),
                   static_cast<std::int64_t>(scale_inv.size_bytes()));
    space_.wait();
    model_.set_scales(scales_);
  }
  void begin(std::int64_t micro_batch) override { model_.begin(micro_batch); }
  void forward(int unit, const TensorView& param) override { model_.forward(unit, fetch(param)); }
  void backward(int unit, const TensorView& param, const TensorView& grad) override {
    const GuardedBuffer params = copy_of(param);
    const GuardedBuffer grads = copy_of(grad);
    model_.backward(unit, params.view(), grads.view());
    ZP_CHECK(grads.guards_intact(), ErrorCode::internal,
             "the red zone of the gradient of unit " + std::to_string(unit) + " was overwritten",
             "the model wrote outside its range", "check the model's backward pass");
    space_.from_host(grad.data, grads.data(), grad.num_bytes());
  }

 private:
  GuardedBuffer copy_of(const TensorView& view) const {
    GuardedBuffer copy(view.numel, view.dtype, BufferFill::untouched);
    space_.to_host(copy.data(), view.data, view.num_bytes());
    space_.wait();
    return copy;
  }
  TensorView fetch(const TensorView& view) {
    visited_ = copy_of(view);
    return visited_.view();
  }

  LayeredModel& model_;
  const MemorySpace& space_;
  GuardedBuffer visited_;
  std::vector<float> scales_;  ///< of the running step
};

}  // namespace zeroproof::cuda
