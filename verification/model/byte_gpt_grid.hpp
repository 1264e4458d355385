#pragma once
// byte_gpt on several ranks: tensor parallelism with sequence parallelism as in Megatron-LM
// (arXiv:2205.05198), and context parallelism, with every sum in the order of R18.
//
// Rank (c, t) of a cp * tp grid computes parts of the gradient of one micro-batch. Where tensor
// parallelism splits a tensor, the parts of one slice are numbered by c. Every rank has a part of
// the other tensors: parts t = 0..tp-1 make part c, parts c = 0..cp-1 the gradient. Combined in
// this way by the tree of R11, all parts have the bits of the undistributed gradient. Ranks without
// positions or hidden units take part in every call; their parts are +0.

#include <cstdint>
#include <vector>

#include "common/layout/process_grid.hpp"
#include "verification/model/byte_gpt_cuts.hpp"
#include "verification/model/byte_gpt_layered.hpp"
#include "verification/model/byte_gpt_place.hpp"

namespace zeroproof::workload {

/// The part of one rank of byte_gpt_loss_and_grad's gradient. Collective over both groups.
///
/// Shapes   flat_params, flat_grad: [padded_numel] of `layout`, that of byte_gpt_tp_model(shape,
///          tp_size, tp_rank); tokens as there, and the same on every rank of the groups.
/// Returns  the loss of the whole micro-batch, the same bits as there on every rank.
/// Errors   Error(invalid_argument) as there; if a group has not 1, 2, 4 or 8 ranks, both together
///          have more than 8, tp does not divide the heads, or embeddings are tied on more than one
///          rank. Errors of the communicators too.
template <class Real>
double byte_gpt_grid_loss_and_grad(const ByteGptShape& shape, const ByteGptGroups& groups,
                                   const FlatLayout& layout, Span<const Real> flat_params,
                                   Span<const std::uint8_t> tokens, Real loss_scale,
                                   Span<Real> flat_grad,
                                   InstructionSet set = best_instruction_set());

/// The same layer by layer; all ranks of the groups make the same calls. `data` must return the
/// same on all of them.
class ByteGptGrid : public ByteGptLayered {
 public:
  /// Errors as byte_gpt_grid_loss_and_grad.
  ByteGptGrid(const ByteGptShape& shape, const ByteGptGroups& groups, ByteGptData data,
              AfterGrad after_grad = {}, InstructionSet set = best_instruction_set());

  /// Of the tensors of layout().
  const std::vector<TensorPlacement>& placements() const { return placements_; }

 private:
  std::vector<TensorPlacement> placements_;
};

}  // namespace zeroproof::workload
