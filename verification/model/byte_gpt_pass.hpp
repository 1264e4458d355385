#pragma once
// One micro-batch through the model, unit by unit: shared by the whole, the layered and the
// distributed model.

#include <cstdint>
#include <optional>
#include <vector>

#include "common/layout/flat_layout.hpp"
#include "verification/model/byte_gpt_block.hpp"
#include "verification/model/byte_gpt_ends.hpp"

namespace zeroproof::workload {

/// Units of a layout of the model, whole or one rank's: embeddings; every block; final norm and
/// head (if it has one).
std::vector<FlatRange> byte_gpt_units(const ByteGptShape& shape, const FlatLayout& layout);

/// Units in forward order: all of them, and the embeddings once more where they are the head.
std::vector<int> byte_gpt_visits(const ByteGptShape& shape);

/// Activations of one micro-batch. Stores no view of parameters or gradients; `tokens` must outlive
/// it.
template <class Real>
class BytePass {
 public:
  /// Errors: invalid_argument if there are fewer than 2 or more than context + 1 tokens.
  BytePass(const ByteGptShape& shape, const ByteGptPlace& place, Span<const std::uint8_t> tokens,
           InstructionSet set);

  /// visit: index into byte_gpt_visits(), from the first to the last.
  void forward(std::size_t visit, const Tensors<const Real>& params);

  /// The same, from the last to the first. Writes every element of the unit's tensors, or adds to
  /// them if the unit was visited before.
  void backward(std::size_t visit, const Tensors<const Real>& params, Real loss_scale,
                const Tensors<Real>& grads);

  /// All visits on one flat buffer.
  void run_forward(const Tensors<const Real>& params) {
    for (std::size_t v = 0; v < num_visits(); ++v) forward(v, params);
  }
  void run_backward(const Tensors<const Real>& params, Real loss_scale,
                    const Tensors<Real>& grads) {
    for (std::size_t v = num_visits(); v-- > 0;) backward(v, params, loss_scale, grads);
  }

  /// Observes all later forward visits. The observer must outlive the pass; backward does not use
  /// its replacements.
  void set_tap(LinearObserver<Real>* observer) { observer_ = observer; }

  /// Mean cross-entropy in nats, after the last forward visit.
  double loss() const { return loss_; }

 private:
  std::size_t num_visits() const { return byte_gpt_visits(shape_).size(); }
  Pass<Real> pass_with(const Tensors<const Real>& params) const {
    return {set_, shape_, place_, params, observer_};
  }

  InstructionSet set_;
  ByteGptShape shape_;  // with the number of positions of the micro-batch
  ByteGptPlace place_;
  Span<const std::uint8_t> tokens_;
  Buffer<Real> residual_;  // [own rows, width]
  Buffer<Real>
      d_residual_;  // [own rows, width], starts at +0: only the final norm reads the last residual
  std::vector<std::optional<BlockSaved<Real>>> blocks_;
  std::optional<HeadSaved<Real>> head_;
  double loss_ = 0;
  LinearObserver<Real>* observer_ = nullptr;
};

}  // namespace zeroproof::workload
