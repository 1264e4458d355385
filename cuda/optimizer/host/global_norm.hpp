#pragma once
// The norm of every clip group in the form the run uses (R12), over pieces, threads and ranks.

#include <cstdint>
#include <vector>

#include "common/comm/communicator.hpp"
#include "common/contracts/grad_norm.hpp"
#include "common/step/distributed_optimizer.hpp"
#include "common/step/phase.hpp"
#include "cuda/kernel_table.hpp"

namespace zeroproof::cuda {

class GlobalNorm {
 public:
  GlobalNorm(NormForm form, int clip_groups)
      : form_(form),
        limbs_(static_cast<std::size_t>(clip_groups)),
        amax_(static_cast<std::size_t>(clip_groups)) {}

  void clear();

  /// Partial sum of one worker for one group. Each worker adds to its own, and add() takes each of
  /// them once.
  struct Part {
    NormLimbs limbs;
    std::uint32_t amax = 0;

    void add(const Part& other);
  };
  /// Sums of all groups. The default group costs no allocation.
  class Parts {
   public:
    Part& of(std::size_t group) {
      if (group == 0) return first_;
      if (others_.size() < group) others_.resize(group);
      return others_[group - 1];
    }
    std::size_t count() const { return 1 + others_.size(); }

   private:
    Part first_;
    std::vector<Part> others_;
  };
  void add(Parts& parts) {
    for (std::size_t group = 0; group < parts.count(); ++group) add(parts.of(group), group);
  }
  void add(const Part& part, std::size_t group);

  /// Adds elements of the unscaled gradient, from a chunk boundary on.
  void add(const KernelTable& ops, const Exec& exec, Span<const float> unscaled_grad,
           Part& part) const;

  /// The fused forms of unscale and norm: they read part of the gradient sum, from a chunk boundary
  /// on, multiply in registers and store nothing. fused_unscale returns its found_inf and computes
  /// the norm in the same pass if the form allows it; otherwise fused_norm computes it.
  bool fused_unscale(const Exec& exec, float inv_scale, Span<const float> grad_sum,
                     Part& part) const;
  void fused_norm(const Exec& exec, float inv_scale, Span<const float> grad_sum, Part& part) const;
  /// sum = the nodes, added by the plan, and fused_unscale of it in one pass. Only where
  /// fused_folds().
  bool fused_fold(const Exec& exec, float inv_scale, const host::FoldPlan& plan,
                  Span<const host::GradStretch> operands, Span<float> sum, bool streamed,
                  Part& part) const;
  /// fused_unscale of a micro-batch gradient in its own type. Only where fused_folds().
  bool fused_unscale_stretch(const Exec& exec, float inv_scale, const host::GradStretch& leaf,
                             std::int64_t numel, Part& part) const;
  bool fused_folds() const { return form_ == NormForm::chunk1024; }
  bool needs_fused_norm() const { return form_ == NormForm::exact || form_ == NormForm::one; }

  /// Combines the ranks that have counted other elements: those of comm and of tp, each unless it
  /// is null; one reduction for each, of all groups. norms: [clip groups], each N.
  void finish(Communicator* comm, Communicator* tp, Span<double> norms);

  /// The integers from which the norms are computed: limbs, or the largest magnitudes with the form
  /// inf.
  ExposedBuffer exposed() const;

 private:
  const NormForm form_;
  std::vector<NormLimbs> limbs_;     // [clip groups]
  std::vector<std::uint32_t> amax_;  // [clip groups]
};

}  // namespace zeroproof::cuda
