#pragma once

#include "common/base/guarded_buffer.hpp"
#include "cuda/faults/saboteur.hpp"

namespace zeroproof::cuda {

/// Gradients as a wrong accumulation would see them.
class Saboteur::Leaves final : public LeafSource {
 public:
  Leaves(const OptimizerSetup& setup, std::string_view fault) : setup_(setup), fault_(fault) {}

  LeafSource& over(LeafSource& honest, int log2_loss_scale);

  TensorView leaf(std::int64_t micro_batch) override;
  std::int64_t num_tokens(std::int64_t micro_batch) const override {
    return honest_->num_tokens(micro_batch);
  }
  bool has_grad(std::int64_t micro_batch, std::int64_t tensor) const override {
    return honest_->has_grad(micro_batch, tensor);
  }

  /// The sum of this rank's own leaves of the step, [padded_numel].
  const std::vector<float>& own_sum() const { return own_sum_; }

 private:
  void scale(float factor);
  void clip();
  void swap_with_old();

  const OptimizerSetup& setup_;
  const std::string_view fault_;
  LeafSource* honest_ = nullptr;
  int log2_loss_scale_ = 0;
  std::vector<float> values_, own_sum_;  // [padded_numel]
  std::vector<float> old_;               // the last micro-batch of the step before
  GuardedBuffer narrow_;
};

}  // namespace zeroproof::cuda
