#pragma once
// The step number of every tensor, and the scalars of that step (R5, R6 "missing gradient").

#include <cstdint>
#include <cstring>
#include <vector>

#include "common/step/distributed_optimizer.hpp"
#include "cuda/optimizer/state/step_decision.hpp"

namespace zeroproof::cuda {

/// With missing_grad = zero there is one count for all tensors and one set of scalars for every param group; with skip
/// every tensor has its own.
class TensorSteps {
 public:
  explicit TensorSteps(const OptimizerSetup& setup);

  void load(const FullState& state);

  /// Phase prepare: the divisor, tensors with a gradient, and the scalars, which must be the same
  /// on every rank. Collective over all ranks of the step. Errors: comm if the scalars differ.
  void prepare(GradSource& leaves, int log2_loss_scale);

  /// Scalars, gradients and counts; and those of a step prepared elsewhere.
  StepDecision decision() const {
    return {scalars_, has_grad_, tensor_steps_, applied_steps_, {}, {}};
  }
  void follow(const StepDecision& decision);

  /// End of phase update: counts the step for the tensors that took part.
  void advance();

  bool per_tensor() const { return setup_.missing_grad == MissingGrad::skip; }
  bool updated(const Piece& piece) const { return updated(piece.tensor); }
  bool updated(std::int64_t tensor) const { return !per_tensor() || has_grad(tensor); }
  const StepScalars& scalars(const Piece& piece) const { return scalars(piece.tensor); }
  const StepScalars& scalars(std::int64_t tensor) const {
    return scalars_[per_tensor() ? static_cast<std::size_t>(tensor)
                                 : static_cast<std::size_t>(setup_.groups.of(tensor))];
  }
  /// True if two tensors are updated with the same scalars, or both are not updated.
  bool same_scalars(const Piece& a, const Piece& b) const {
    if (updated(a) != updated(b)) return false;
    const StepScalars& one = scalars(a);
    const StepScalars& other = scalars(b);
    return &one == &other || std::memcmp(&one, &other, sizeof(one)) == 0;
  }
  /// Applied updates of the piece's tensor, as used by the draw of a stochastic rounding.
  std::uint64_t applied(const Piece& piece) const {
    return per_tensor() ? tensor_steps_[piece.tensor] : applied_steps_;
  }

  std::uint64_t applied_steps() const { return applied_steps_; }

  /// Removes the loss scale and computes the mean, with the same scalars for every tensor.
  float inv_scale() const { return scalars_.empty() ? 1.0F : scalars_.front().inv_scale; }

  /// Views for observers; lock-step writes through them.
  TensorView scalars_view() const;
  TensorView applied_steps_view() const;
  TensorView tensor_steps_view() const;

 private:
  bool has_grad(std::int64_t tensor) const {
    return (has_grad_[static_cast<std::size_t>(tensor) / 64] >> (tensor % 64) & 1) != 0;
  }

  const OptimizerSetup& setup_;
  std::uint64_t applied_steps_ = 0;
  std::vector<std::uint64_t> tensor_steps_;  // [num_tensors] with per_tensor(), else empty
  std::vector<std::uint64_t> has_grad_;      // one bit per tensor
  std::vector<StepScalars> scalars_;         // [num_tensors] with per_tensor(), else [groups]
};

}  // namespace zeroproof::cuda
