#pragma once
// The production step on a device, for a host that only enqueues it.

#include <cstdint>
#include <memory>

#include "common/step/distributed_optimizer.hpp"
#include "cuda/device_calls.hpp"

namespace zeroproof::cuda {

/// What the host knows of the last step that the device has finished.
struct StepStatus {
  std::int64_t steps = 0;  ///< enqueued since load_state and finished, skipped ones included
  std::int64_t applied_steps = 0;  ///< t after it
  bool found_inf = false;
  bool skipped = false;
  double grad_norm = 0;  ///< N of the default clip group; NaN in a skipped step, as clip_coef
  float clip_coef = 1;
  LossScalerState scaler;  ///< after the step
};

/// One rank. Everything a step decides (scalars, skip, loss scale, norm, clip) is decided on the device, where the next
/// step finds it: the host need not look at a step before it enqueues the next one.
///
/// If the device finds that a step must not go on (on_nonfinite = error, ranks with different scalars), that step and
/// all later ones change nothing, and the next call here that looks throws: what was enqueued meanwhile is lost, and
/// nothing else. Where there are other ranks enqueue_step() throws most_enqueued steps later, on all ranks in the same
/// step; wait() at once.
class EnqueuedOptimizer : public DistributedOptimizer {
 public:
  /// One step, from leaves to parameters. Leaves of the host are its own again at once. The host waits for the device
  /// if it is about most_enqueued steps ahead, if more of its leaves is under way than pinned memory holds
  /// (runtime/staging.hpp), if a model of its own wants parameters layer by layer, and with offloaded state until the
  /// step is decided and its part is updated. Collective over all ranks of the step, which meet on the host.
  /// Errors: those of a step that the device has stopped in meanwhile (nonfinite, comm, invalid_argument); what a rank
  /// or a kernel did wrong.
  virtual void enqueue_step(GradSource& leaves) = 0;

  /// What the last enqueue_step() that returned has asked the device for.
  virtual DeviceCalls calls() const = 0;

  /// The last step that is finished, without waiting. Errors: as enqueue_step.
  virtual StepStatus status() = 0;

  /// Until every step is finished. Returns the last one's status. Errors: as enqueue_step.
  virtual StepStatus wait() = 0;

  /// Where the device keeps log2 of the loss scale: what a model on the same device reads before it makes its leaves.
  virtual const std::int32_t* log2_loss_scale() const = 0;

  static constexpr std::int64_t most_enqueued = 64;
};

/// fused    two passes over the gradient. graphs: from the second step on they are replayed as CUDA graphs, one for
///          each stretch in which ranks need not meet on the host; needs fused.
/// Errors: those of make_distributed_optimizer in the space device; invalid_argument for graphs without fused.
std::unique_ptr<EnqueuedOptimizer> make_enqueued_optimizer(const OptimizerSetup& setup,
                                                           bool fused = true, bool graphs = true);

}  // namespace zeroproof::cuda
