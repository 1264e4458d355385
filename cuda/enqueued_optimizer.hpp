#pragma once
// The production step on a device, enqueued by the host without waiting.

#include <cstdint>
#include <memory>

#include "common/step/distributed_optimizer.hpp"
#include "cuda/device_calls.hpp"

namespace zeroproof::cuda {

/// Status of the last step that the device has finished.
struct StepStatus {
  std::int64_t steps = 0;  ///< enqueued since load_state and finished, skipped ones included
  std::int64_t applied_steps = 0;  ///< t after that step
  bool found_inf = false;
  bool skipped = false;
  double grad_norm = 0;  ///< N of the default clip group; NaN in a skipped step, as clip_coef
  float clip_coef = 1;
  LossScalerState scaler;  ///< after the step
};

/// One rank. All decisions of a step (scalars, skip, loss scale, norm, clip) are made and kept on
/// the device, so the host can enqueue the next step without reading the result of this one.
///
/// If the device stops at a step (on_nonfinite = error, or ranks with different scalars), that step
/// and all later ones change nothing, and the next call here that checks the status throws; steps
/// enqueued meanwhile have no effect. With several ranks enqueue_step() throws most_enqueued steps
/// later, on all ranks in the same step; wait() throws at once.
class EnqueuedOptimizer : public DistributedOptimizer {
 public:
  /// One step, from micro-batch gradients to parameters. Host gradients may be changed as soon as
  /// it returns. The host waits for the device if it is about most_enqueued steps ahead, if more
  /// gradient bytes are in flight than pinned memory holds (runtime/staging.hpp), if the caller's
  /// model needs parameters layer by layer, and with offloaded state until the step is decided and
  /// its part is updated. Collective over all ranks of the step, which meet on the host.
  /// Errors: those of an earlier step at which the device stopped (nonfinite, comm,
  /// invalid_argument); failures of a rank or a kernel.
  virtual void enqueue_step(GradSource& leaves) = 0;

  /// Device calls of the last enqueue_step() that returned.
  virtual DeviceCalls calls() const = 0;

  /// The last step that is finished, without waiting. Errors: as enqueue_step.
  virtual StepStatus status() = 0;

  /// Waits until every step is finished and returns the last status. Errors: as enqueue_step.
  virtual StepStatus wait() = 0;

  /// Device address of log2 of the loss scale, read by a model on the same device before its
  /// backward pass.
  virtual const std::int32_t* log2_loss_scale() const = 0;

  static constexpr std::int64_t most_enqueued = 64;
};

/// fused    two passes over the gradient.
/// graphs   from the second step on steps are replayed as CUDA graphs, one for each section without
///          a meeting of the ranks on the host; needs fused.
/// Errors: those of make_distributed_optimizer in the space device; invalid_argument for graphs
/// without fused.
std::unique_ptr<EnqueuedOptimizer> make_enqueued_optimizer(const OptimizerSetup& setup,
                                                           bool fused = true, bool graphs = true);

}  // namespace zeroproof::cuda
