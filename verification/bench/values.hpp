#pragma once
// The initial values of a step, addressed by element: any rank and any layout can compute any part
// of them.

#include <cstdint>

#include "common/base/span.hpp"
#include "common/contracts/step_scalars.hpp"
#include "common/step/distributed_optimizer.hpp"
#include "cuda/host/fused_step.hpp"
#include "verification/bench/huge_buffer.hpp"
#include "verification/bench/worker_team.hpp"

namespace zeroproof::verification::bench {

/// Steps that were applied before the first one, and the loss scale 2^k.
inline constexpr std::int64_t steps_before = 9;
inline constexpr int log2_loss_scale = 10;

/// Elements [begin, begin + out.size()) of micro-batch j's gradient; begin is a multiple of 4.
void fill_grad(std::int64_t micro_batch, std::int64_t begin, Span<float> out);

/// The same of the first state.
void fill_master(std::int64_t begin, Span<float> out);
void fill_exp_avg(std::int64_t begin, Span<float> out);
void fill_exp_avg_sq(std::int64_t begin, Span<float> out);

/// AdamW; gradients are so large that a norm of 1 clips.
OptimizerHyper step_hyper(bool clips);

/// The settings that the optimizers of all rows share: AdamW, a norm that clips, a constant loss scale.
OptimizerSetup step_setup(const FlatLayout& layout, const ShardMap& shards, Communicator& comm,
                          int stage);

/// Master and moments of the elements from `begin` on, first with the first state's values.
struct State {
  /// Filled by the threads of the team, or by the caller.
  State(std::int64_t numel, WorkerTeam& team);
  State(std::int64_t begin, std::int64_t numel);

  cuda::host::FusedState fused() const {
    return {master.span(), {exp_avg.span(), exp_avg_sq.span()}};
  }
  /// The initial state of an optimizer; the values are read during the lifetime of this object.
  FullState full() const;

  HugeBuffer<float> master, exp_avg, exp_avg_sq;  // [numel]

 private:
  explicit State(std::int64_t numel) : master(numel), exp_avg(numel), exp_avg_sq(numel) {}
  void fill(std::int64_t global_begin, std::int64_t begin, std::int64_t end) const;
};

/// The part [begin, end) of a buffer.
template <class T>
Span<T> part(const HugeBuffer<T>& buffer, std::int64_t begin, std::int64_t end) {
  return buffer.span().subspan(begin, end - begin);
}

}  // namespace zeroproof::verification::bench
