#pragma once
// Gradients of a model that runs layer by layer, for stages that reduce whole gradients.

#include <optional>

#include "common/step/distributed_optimizer.hpp"
#include "cuda/optimizer/overlap/memory_ledger.hpp"

namespace zeroproof::cuda {

/// A gradient source for stages 0 and 1: micro_batch_grad(j) runs the model over whole parameters
/// into one gradient buffer.
///
/// Memory: gradient dtype x padded_numel of class grad, from the first micro_batch_grad() until this is destroyed;
/// nothing on a rank without micro-batches.
class LayeredGrads final : public GradSource {
 public:
  /// counts implements num_tokens() and has_grad(). params: [padded_numel] in the parameter dtype,
  /// whole and up to date whenever micro_batch_grad() is called. Everything must outlive this.
  ///
  /// Errors   invalid_argument if the model's units do not match the layout (require_units), or
  ///          params has another size.
  LayeredGrads(LayeredModel& model, const GradSource& counts, const FlatLayout& layout,
               const TensorView& params, DType grad_dtype, MemoryLedger& ledger);

  /// The buffer is NaN before the model writes it; padding stays NaN.
  TensorView micro_batch_grad(std::int64_t micro_batch) override;
  Space space() const override { return ledger_.space().kind; }
  std::int64_t num_tokens(std::int64_t micro_batch) const override {
    return counts_.num_tokens(micro_batch);
  }
  bool has_grad(std::int64_t micro_batch, std::int64_t tensor) const override {
    return counts_.has_grad(micro_batch, tensor);
  }

 private:
  LayeredModel& model_;
  const GradSource& counts_;
  const TensorView params_;
  const DType grad_dtype_;
  MemoryLedger& ledger_;
  std::optional<CountedBuffer> leaf_;
};

/// Errors: invalid_argument if the units are not neighbours from 0 to padded_numel with boundaries
/// at tensor starts, a visit names no unit, or a unit with elements is never visited.
void require_units(const LayeredModel& model, const FlatLayout& layout);

}  // namespace zeroproof::cuda
