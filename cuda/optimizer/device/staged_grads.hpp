#pragma once
// Host gradients for an optimizer whose buffers are on a device.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "common/base/error.hpp"
#include "common/step/distributed_optimizer.hpp"
#include "cuda/optimizer/device/staged_model.hpp"
#include "cuda/optimizer/overlap/memory_ledger.hpp"

namespace zeroproof::cuda {

/// Memory: one gradient of class grad, allocated for the first whole gradient; none on a rank
/// without micro-batches.
class StagedGrads final : public GradSource {
 public:
  /// The ledger must outlive this.
  explicit StagedGrads(MemoryLedger& ledger) : ledger_(ledger) {}

  /// The gradients of this phase: unchanged if they are on the device.
  GradSource& of(GradSource& leaves) {
    leaves_ = &leaves;
    return leaves.space() == Space::device ? leaves : *this;
  }

  Space space() const override { return Space::device; }

  TensorView micro_batch_grad(std::int64_t micro_batch) override {
    const TensorView leaf = leaves_->micro_batch_grad(micro_batch);
    if (leaf.data == nullptr) return leaf;  // the caller refuses it
    ZP_CHECK(ledger_.space().is_on_host(leaf.data), ErrorCode::invalid_argument,
             "the gradient of micro-batch " + std::to_string(micro_batch) +
                 " is in the memory of a device",
             "its source has declared host memory, and the host cannot read it",
             "return device from GradSource::space(), or copy it to the host");
    if (copy_->numel() != leaf.numel || copy_->dtype() != leaf.dtype) {
      copy_ = CountedBuffer();
      copy_ =
          CountedBuffer(ledger_, MemoryClass::grad, leaf.numel, leaf.dtype, BufferFill::untouched);
    }
    ledger_.space().from_host(copy_->data(), leaf.data, leaf.num_bytes());
    return copy_->view();
  }
  std::int64_t num_tokens(std::int64_t micro_batch) const override {
    return leaves_->num_tokens(micro_batch);
  }
  bool has_grad(std::int64_t micro_batch, std::int64_t tensor) const override {
    return leaves_->has_grad(micro_batch, tensor);
  }
  LayeredModel* layers() override {
    LayeredModel* const model = leaves_->layers();
    model_ = model == nullptr ? nullptr : std::make_unique<StagedModel>(*model, ledger_.space());
    return model_.get();
  }

 private:
  MemoryLedger& ledger_;
  GradSource* leaves_ = nullptr;
  CountedBuffer copy_;
  std::unique_ptr<StagedModel> model_;
};

}  // namespace zeroproof::cuda
