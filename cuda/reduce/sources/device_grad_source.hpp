#pragma once
// A backward pass of known bits and known length, on the device that the optimizer works on.

#include <cstdint>
#include <optional>
#include <vector>

#include "common/step/distributed_optimizer.hpp"
#include "cuda/comm/memory/space_array.hpp"
#include "cuda/reduce/sources/grad_formula.hpp"

namespace zeroproof::cuda {

/// How long the device takes from the start of a visit to its end, for every element of the unit or leaf. A visit whose
/// leaf takes longer to write takes that long. 0: no time but that.
struct GradPace {
  double forward_ns = 0;
  double backward_ns = 0;
};

/// Leaves of the formula, made by kernels that the optimizer's stream waits for and the host does not. Of one rank, and
/// of the device that this thread has chosen: make it after the optimizer.
class DeviceGradSource final : public GradSource, private LayeredModel {
 public:
  /// log2_scale: where the device keeps log2 of the loss scale (EnqueuedOptimizer::log2_loss_scale()). units: of a
  /// model that runs layer by layer; none: whole leaves. The layout and log2_scale outlive this, and whatever was
  /// enqueued with it is finished when it ends.
  DeviceGradSource(const GradFormula& formula, const FlatLayout& layout, DType dtype,
                   const std::int32_t* log2_scale, GradPace pace = {},
                   std::vector<FlatRange> units = {});

  /// What is asked for from now on is of this step, counted from 0.
  void set_step(std::int64_t step) { step_ = step; }

  Space space() const override { return Space::device; }
  /// One place for all of them: the device comes to the next one when it has used this one.
  TensorView micro_batch_grad(std::int64_t micro_batch) override;
  LayeredModel* layers() override { return units_.empty() ? nullptr : this; }

  /// Nanoseconds that the pace gives a micro-batch.
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
  std::optional<SpaceArray<std::byte>>
      leaf_;  // [padded_numel] elements, from the first whole leaf on
  std::int64_t step_ = 0;
  std::int64_t micro_batch_ = 0;
};

}  // namespace zeroproof::cuda
