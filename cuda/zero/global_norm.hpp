#pragma once
// The global norm in the form the run uses (R12), over pieces, threads and ranks.

#include <cstdint>

#include "common/comm/communicator.hpp"
#include "common/contracts/grad_norm.hpp"
#include "common/step/distributed_optimizer.hpp"
#include "common/step/phase.hpp"
#include "cuda/phase_ops.hpp"

namespace zeroproof::cuda {

class GlobalNorm {
 public:
  explicit GlobalNorm(NormForm form) : form_(form) {}

  void clear();

  /// What one worker has added up. Workers add to their own, and add(part) takes each of them once.
  struct Part {
    NormLimbs limbs;
    std::uint32_t amax = 0;

    void add(const Part& other);
  };
  void add(const Part& part) { sum_.add(part); }

  /// Adds elements of the unscaled gradient, from a chunk boundary on.
  void add(const PhaseOps& ops, const Exec& exec, Span<const float> unscaled_grad, Part& part) const;

  /// The fused forms of unscale and norm: they read part of the gradient sum, from a chunk boundary on, multiply in
  /// registers and store nothing. fused_unscale returns its found_inf and adds what it can on the way; fused_norm adds
  /// the rest, if the form leaves any.
  bool fused_unscale(const Exec& exec, float inv_scale, Span<const float> grad_sum, Part& part) const;
  void fused_norm(const Exec& exec, float inv_scale, Span<const float> grad_sum, Part& part) const;
  /// sum = the nodes, added as the plan says, and fused_unscale of it in one pass. Only where fused_folds().
  bool fused_fold(const Exec& exec, float inv_scale, const host::FoldPlan& plan,
                  Span<const host::GradStretch> operands, Span<float> sum, bool streamed, Part& part) const;
  /// fused_unscale of a leaf in its own type. Only where fused_folds().
  bool fused_look(const Exec& exec, float inv_scale, const host::GradStretch& leaf, std::int64_t numel,
                  Part& part) const;
  bool fused_folds() const { return form_ == NormForm::chunk1024; }
  bool fused_leaves_rest() const { return form_ == NormForm::exact || form_ == NormForm::one; }

  /// Combines the ranks that have counted other elements: those of comm and of tp, each unless it is null. Returns N.
  double finish(Communicator* comm, Communicator* tp);

  /// The integers the norm is made from: limbs, or the largest magnitude with the form inf.
  ExposedBuffer exposed() const;

 private:
  const NormForm form_;
  Part sum_;
};

}  // namespace zeroproof::cuda
