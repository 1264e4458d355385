#pragma once
// The norm of every clip group in the form the run uses (R12), over pieces, threads and ranks.

#include <cstdint>
#include <vector>

#include "common/comm/communicator.hpp"
#include "common/contracts/grad_norm.hpp"
#include "common/step/distributed_optimizer.hpp"
#include "common/step/phase.hpp"
#include "cuda/kernel_table.hpp"
#include "cuda/reduce/fold_epilogue.hpp"

namespace zeroproof::cuda {

class GlobalNorm {
 public:
  GlobalNorm(NormForm form, int clip_groups)
      : form_(form),
        limbs_(static_cast<std::size_t>(clip_groups)),
        amax_(static_cast<std::size_t>(clip_groups)) {}

  void clear();

  /// Partial sums of one worker, of all groups. Each worker adds to its own, and add() takes each
  /// of them once. The default group costs no allocation.
  class Parts {
   public:
    NormPart& of(std::size_t group) {
      if (group == 0) return first_;
      if (others_.size() < group) others_.resize(group);
      return others_[group - 1];
    }
    std::size_t count() const { return 1 + others_.size(); }

   private:
    NormPart first_;
    std::vector<NormPart> others_;
  };
  void add(Parts& parts) {
    for (std::size_t group = 0; group < parts.count(); ++group) add(parts.of(group), group);
  }
  void add(const NormPart& part, std::size_t group);

  /// Adds elements of the unscaled gradient, from a chunk boundary on.
  void add(const KernelTable& ops, const Exec& exec, Span<const float> unscaled_grad,
           NormPart& part) const;

  /// Adds grad_sum * inv_scale, which is not stored, from a chunk boundary on. Only with
  /// needs_fused_norm(): otherwise FoldEpilogue finds the norm together with found_inf.
  void fused_norm(const Exec& exec, float inv_scale, Span<const float> grad_sum,
                  NormPart& part) const;
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
