#pragma once
// The gradients of DeviceGradSource, on the host.

#include <cstdint>
#include <functional>

#include "common/base/guarded_buffer.hpp"
#include "common/step/distributed_optimizer.hpp"
#include "cuda/reduce/sources/grad_formula.hpp"

namespace zeroproof::cuda {

/// Whole gradients, bit for bit those of the formula.
class HostGradSource final : public GradSource {
 public:
  /// log2_scale: called for every gradient. The layout outlives this.
  HostGradSource(const GradFormula& formula, const FlatLayout& layout, DType dtype,
                 std::function<std::int32_t()> log2_scale);

  /// Sets the step of the following gradients, counted from 0.
  void set_step(std::int64_t step) { step_ = step; }

  TensorView micro_batch_grad(std::int64_t micro_batch) override;

 private:
  const GradFormula formula_;
  const std::function<std::int32_t()> log2_scale_;
  GuardedBuffer leaf_;  // [padded_numel]
  std::int64_t step_ = 0;
};

}  // namespace zeroproof::cuda
