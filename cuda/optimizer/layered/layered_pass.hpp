#pragma once
// The reduce phase of stages 2 and 3 when the model runs layer by layer: whole parameters and whole
// gradients exist only while they are used.

#include <cstdint>
#include <memory>
#include <optional>

#include "common/step/distributed_optimizer.hpp"
#include "cuda/optimizer/overlap/memory_ledger.hpp"
#include "cuda/optimizer/overlap/plan_executor.hpp"
#include "cuda/optimizer/overlap/ready_count.hpp"
#include "cuda/optimizer/overlap/step_plan.hpp"
#include "cuda/optimizer/overlap/unit_exchange.hpp"
#include "cuda/optimizer/overlap/unit_grads.hpp"
#include "cuda/optimizer/overlap/unit_param_buffers.hpp"

namespace zeroproof::cuda {

/// Runs the plan of a micro-step (cuda/optimizer/overlap/step_plan.hpp) once per micro-step. It
/// owns the persistent units and, without a PlanRunner, the communication thread; reusing the
/// object over steps keeps both.
///
/// *Persistent units* (stage 3): units that have elements, and whose tensors all have at most
/// persistent_numel. They are gathered at the start of run() when the gatherer's version has
/// changed, and stay allocated. A unit with a larger tensor is gathered whole each time; the
/// gatherer may fill in the smaller ones from copies of its own.
///
/// *Memory.* Lifetimes are described in cuda/README.md, "Memory of a step". Gathered units are of
/// class param_full, gradients of class grad; no other code allocates in grad, and every micro-step
/// starts and ends at 0. The peak of a class is the same in every timing. That of the sum over
/// classes is not, with overlap, if the BucketSink or the UnitGatherer allocates, because they do
/// it on the other thread: it is between the largest class peak and the sum of all.
class LayeredPass {
 public:
  /// gatherer: null below stage 3. params: [padded_numel] in the parameter dtype, whole and up to
  /// date whenever run() is called; ignored in stage 3. runner: runs the plans; null: a
  /// PlanExecutor with the hooks. All arguments must outlive this; the layout, the shard map and
  /// the options of the setup must not change.
  ///
  /// Errors   invalid_argument if the stage is below 2, the model's units do not match the layout,
  ///          the gatherer or the parameters are missing or have another size or dtype.
  LayeredPass(const OptimizerSetup& setup, LayeredModel& model, UnitGatherer* gatherer,
              BucketSink& sink, MemoryLedger& ledger, const TensorView& params,
              ExecutorHooks hooks = {}, PlanRunner* runner = nullptr);

  /// All micro-steps of a reduce phase; collective over the ranks of comm, replicas and tp. The
  /// sink gets every bucket once per micro-step, in an order that is the same on all ranks; with
  /// overlap on a separate thread, so the sink's and the gatherer's communicators must not be used
  /// elsewhere (not by the model either) while this runs.
  ///
  /// Errors   those of the model, the gatherer, the sink and PlanRunner::run. Gradients and
  ///          gathered units are freed then.
  void run();

  const StepPlan& plan() const { return plan_; }

 private:
  void run_micro_step(std::int64_t micro_step);
  void run_op(const PlanOp& op);
  void allocate(const PlanBuffer& buffer);
  void free(const PlanBuffer& buffer);
  TensorView param(int unit) const;

  const OptimizerSetup& setup_;
  LayeredModel& model_;
  BucketSink& sink_;
  const TensorView params_;
  LayerSchedule shape_;
  StepPlan plan_;
  UnitGrads grads_;
  std::optional<UnitParamBuffers> gathered_;  // stage 3
  ReadyCount ready_;
  std::unique_ptr<PlanRunner> own_runner_;
  PlanRunner& runner_;
  std::int64_t micro_step_ = 0;
  std::optional<std::int64_t> micro_batch_;  // of this rank in this micro-step
};

}  // namespace zeroproof::cuda
