#pragma once
// The gradients of one micro-batch, unit by unit: a layered source runs layer by layer, any other
// source gives its gradient as one unit.

#include <functional>
#include <optional>
#include <vector>

#include "common/step/distributed_optimizer.hpp"
#include "reference/zero/sharded/unit_params.hpp"

namespace zeroproof::reference {

/// Receives the gradient of a unit, [unit numel] in fp32 with NaN in padding and the parts of the
/// TP ranks combined; nullptr on a rank without a micro-batch. The values may be moved from.
using TakeGradient = std::function<void(std::size_t unit, std::vector<float>* grad)>;

class MicroBatchPass {
 public:
  /// Errors: invalid_argument if the units of a layered model are not a partition of the flat
  /// layout at tensor starts, or one of them is never visited.
  MicroBatchPass(const OptimizerSetup& setup, GradSource& leaves, ParamSource params);

  /// In the order of the flat layout, together [0, padded_numel).
  const std::vector<FlatRange>& units() const { return units_; }

  /// Runs one micro-batch, or none on a rank that has no more: then the pass only takes part in the
  /// other ranks' gathers. Units complete in the same order on all ranks. Collective in stage 3,
  /// and with several TP ranks.
  void run(std::optional<std::int64_t> micro_batch, const TakeGradient& take);

 private:
  void run_whole(std::int64_t micro_batch, const TakeGradient& take);
  void forward(LayeredModel& model, std::optional<std::int64_t> micro_batch);
  void backward(LayeredModel& model, std::optional<std::int64_t> micro_batch,
                const TakeGradient& take);
  /// In fp32, with the TP parts combined.
  std::vector<float> finish_leaf(const TensorView& grad, std::size_t unit) const;

  const OptimizerSetup& setup_;
  GradSource& leaves_;
  LayeredModel* model_;
  std::vector<FlatRange> units_;
  UnitParams params_;
};

}  // namespace zeroproof::reference
