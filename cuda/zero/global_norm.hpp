#pragma once
// The global norm in the form the run uses (R12), over pieces, threads and ranks.

#include <mutex>

#include "common/comm/communicator.hpp"
#include "common/contracts/grad_norm.hpp"
#include "common/step/distributed_optimizer.hpp"
#include "common/step/phase.hpp"
#include "cuda/zero/phase_ops.hpp"

namespace zeroproof::cuda {

class GlobalNorm {
 public:
  explicit GlobalNorm(NormForm form) : form_(form) {}

  void clear();

  /// Adds one piece of the unscaled gradient. Several threads may call at once.
  void add(const PhaseOps& ops, const Exec& exec, Span<const float> unscaled_grad);

  /// The fused forms of unscale and norm: they read one piece of the gradient sum, multiply in registers and store
  /// nothing. fused_unscale returns found_inf of the piece and adds what it can on the way; fused_norm adds the rest.
  bool fused_unscale(const Exec& exec, float inv_scale, Span<const float> grad_sum);
  void fused_norm(const Exec& exec, float inv_scale, Span<const float> grad_sum);

  /// Combines the ranks that have counted other elements: those of comm and of tp, each unless it is null. Returns N.
  double finish(Communicator* comm, Communicator* tp);

  /// The integers the norm is made from: limbs, or the largest magnitude with the form inf.
  ExposedBuffer exposed() const;

 private:
  void add(const NormLimbs& limbs);
  void add(std::uint32_t amax);

  const NormForm form_;
  NormLimbs limbs_;
  std::uint32_t amax_ = 0;
  std::mutex mutex_;
};

}  // namespace zeroproof::cuda
