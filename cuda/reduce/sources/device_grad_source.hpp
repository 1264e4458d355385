#pragma once
// A backward pass of known bits and known duration, on the optimizer's device.

#include <cstdint>
#include <optional>
#include <vector>

#include "common/step/distributed_optimizer.hpp"
#include "cuda/comm/memory/space_array.hpp"
#include "cuda/reduce/sources/grad_formula.hpp"

namespace zeroproof::cuda {

/// Time on the device from the start of a visit to its end, per element of the unit or gradient. A
/// visit whose gradient takes longer to write takes that longer time. 0: no extra time.
struct GradPace {
  double forward_ns = 0;
  double backward_ns = 0;
};

/// Gradients of the formula, computed by kernels for which the optimizer's stream waits but not the
/// host. Of one rank, and of the current device of this thread: construct it after the optimizer.
class DeviceGradSource final : public GradSource, private LayeredModel {
 public:
  /// log2_scale: device address of log2 of the loss scale (EnqueuedOptimizer::log2_loss_scale()).
  /// units: of a model that runs layer by layer; none: whole gradients. The layout and log2_scale
  /// outlive this; the destructor waits for all work that was enqueued with it.
  DeviceGradSource(const GradFormula& formula, const FlatLayout& layout, DType dtype,
                   const std::int32_t* log2_scale, GradPace pace = {},
                   std::vector<FlatRange> units = {});

  /// Sets the step of the following gradients, counted from 0.
  void set_step(std::int64_t step) { step_ = step; }

  Space space() const override { return Space::device; }
  /// One buffer for all gradients: the device writes the next one when this one has been used.
  TensorView micro_batch_grad(std::int64_t micro_batch) override;
  LayeredModel* layers() override { return units_.empty() ? nullptr : this; }

  /// Nanoseconds of a micro-batch at this pace.
  std::int64_t length() const;

 private:
  const std::vector<FlatRange>& units() const override { return units_; }
  const std::vector<int>& visits() const override { return visits_; }
  void begin(std::int64_t micro_batch) override { micro_batch_ = micro_batch; }
  void forward(int unit, const TensorView& param) override;
  void backward(int unit, const TensorView& param, const TensorView& grad) override;

  void fill(std::int64_t micro_batch, std::int64_t begin, const TensorView& to) const;

  const GradFormula formula_;
  const FlatLayout& layout_;
  const DType dtype_;
  const std::int32_t* const log2_scale_;
  const GradPace pace_;
  const std::vector<FlatRange> units_;
  std::vector<int> visits_;  // every unit once, in order
  const SpaceArray<std::uint64_t> begun_;
  // [padded_numel] elements, from the first whole gradient on.
  std::optional<SpaceArray<std::byte>> leaf_;
  std::int64_t step_ = 0;
  std::int64_t micro_batch_ = 0;
};

}  // namespace zeroproof::cuda
