#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cuda/comm/device_comm_groups.hpp"
#include "cuda/comm/memory/host_mirrors.hpp"
#include "cuda/comm/memory/rank_stream.hpp"
#include "cuda/enqueued_optimizer.hpp"
#include "cuda/optimizer/device/device_step.hpp"
#include "cuda/optimizer/device/staged_grads.hpp"
#include "cuda/optimizer/device/status_ring.hpp"
#include "cuda/optimizer/device/step_graphs.hpp"
#include "cuda/optimizer/production_optimizer.hpp"

namespace zeroproof::cuda {

/// The production optimizer with all buffers in device memory, called from the host: it enqueues on
/// its own stream, copies gradients to the device, and gives observers host copies that it keeps up
/// to date. Phase by phase the host checks every phase; enqueue_step() runs the whole step in
/// sections without a check on the host. Subclasses may create their own parts or override single
/// functions.
class DeviceOptimizer : public EnqueuedOptimizer {
 public:
  /// Factories of the parts; each is called once, in the stream of the rank. Null: DeviceStep,
  /// ProductionOptimizer.
  struct Makers {
    std::function<std::unique_ptr<DeviceStep>(RankShard& shard, const CommGroups& comm_groups)>
        step;
    std::function<std::unique_ptr<ProductionOptimizer>(
        const OptimizerSetup& setup, const MakeLocalStep& step, const CommGroups& comm_groups)>
        inner;
  };

  /// Collective. fused: two passes over the gradient; graphs: steps without an observer are
  /// replayed, needs fused. Errors: those of ProductionOptimizer; unavailable if there is no usable
  /// device, or ranks cannot access each other's device memory.
  DeviceOptimizer(const OptimizerSetup& setup, bool fused, bool graphs, const Makers& makers = {});
  /// Waits for the device.
  ~DeviceOptimizer() override;
  DeviceOptimizer(const DeviceOptimizer&) = delete;
  DeviceOptimizer& operator=(const DeviceOptimizer&) = delete;

  void load_state(const FullState& state) override;
  void load_state_from(const StateSource& source) override;
  void run_phase(Phase phase, GradSource& leaves) override;
  bool skipped() const override { return inner_->skipped(); }
  std::vector<ExposedBuffer> exposed(Phase phase) override;
  void overwritten(Phase phase) override;
  std::vector<ExposedBuffer> storage() override;
  std::string damaged_guard() const override;
  LossScalerState loss_scaler() const override;
  std::int64_t applied_steps() const override;
  MemoryUse memory() const override { return inner_->memory(); }
  /// Data transfers of a step, for counting.
  const DeviceCommGroups& comm_groups() const { return *comm_groups_; }
  /// Without an observer and in the fused form: enqueues the step and waits for it.
  bool step(GradSource& leaves, StepObserver* observer = nullptr) override;

  void enqueue_step(GradSource& leaves) override;
  DeviceCalls calls() const override { return calls_; }
  StepStatus status() override;
  StepStatus wait() override;
  const std::int32_t* log2_loss_scale() const override {
    return &step_->record()->state.scaler.log2_scale;
  }

 protected:
  /// All enqueuing and waiting runs inside this function.
  class Inside {
   public:
    explicit Inside(const DeviceOptimizer& rank) : stream_(rank.stream_), watch_(rank.watch_) {}

   private:
    RankStream::Inside stream_;
    device::WatchWaits watch_;
  };

  void make(const Makers& makers);
  /// The part after the sum, up to the parameters. one_stretch: it contains no meeting of the
  /// ranks on the host, so all of it can be captured.
  void enqueue_whole(GradSource& leaves, bool one_stretch);
  void enqueue_matrices();
  void enqueue_with_host(GradSource& leaves, bool one_stretch);
  void release();
  /// Errors: the halt found on the device, if it is due.
  StepStatus last(bool due = true);
  std::vector<ExposedBuffer> mirrored(std::vector<ExposedBuffer> buffers);

  const RankStream stream_;
  device::MakeWatch watch_;
  std::unique_ptr<DeviceCommGroups> comm_groups_;
  const OptimizerSetup setup_;
  const bool fused_, graphs_;
  std::unique_ptr<ProductionOptimizer> inner_;
  DeviceStep* step_ = nullptr;  ///< of inner_
  std::unique_ptr<StagedGrads> leaves_;
  std::unique_ptr<StatusRing> ring_;
  std::unique_ptr<StepGraphs> step_graphs_;
  std::int64_t loaded_t_ = 0;  ///< applied steps in the loaded state
  LossScalerState loaded_scaler_;
  DeviceCalls calls_;
  mutable HostMirrors mirrors_;
};

}  // namespace zeroproof::cuda
