#pragma once
// A model that is run layer by layer, so that a whole parameter exists only while its layer computes.

#include <cstdint>
#include <vector>

#include "common/base/span.hpp"
#include "common/layout/flat_layout.hpp"

namespace zeroproof {

/// Forward and backward pass of one micro-batch, split into units: adjacent tensors whose parameters are gathered and
/// whose gradients are reduced together [ZeRO:units].
///
/// One pass of a micro-batch: begin(j); forward(u) for every u of visits(), in order; backward(u) for every u of
/// visits(), in reverse order. The optimizer drives it and supplies the memory; the model must not keep views beyond a
/// call. On a rank without a micro-batch the optimizer calls nothing.
class LayeredModel {
 public:
  virtual ~LayeredModel() = default;

  /// Units in the order of the flat layout: disjoint, split at tensor starts, together [0, padded_numel).
  virtual const std::vector<FlatRange>& units() const = 0;

  /// Units in the order of the forward pass. A unit visited twice has tied parameters: its gradient is complete after
  /// its last backward visit.
  virtual const std::vector<int>& visits() const = 0;

  /// For 8-bit parameters only: called once in a step before the first begin(), on every rank.
  /// scale_inv: of all blocks (R24), valid until the step ends. Errors: unavailable if the model
  /// does not support such parameters.
  virtual void set_scales(Span<const float> scale_inv);

  virtual void begin(std::int64_t micro_batch) = 0;

  /// param: [unit numel] in the parameter dtype, padding undefined; read only.
  virtual void forward(int unit, const TensorView& param) = 0;

  /// param: as in forward. grad: [unit numel] in the gradient dtype. The first backward visit of the unit writes every
  /// element of every tensor (not padding): before it the content is undefined, NaN with OptimizerSetup::guards. A
  /// later visit adds to it, one fp32 addition per element with the earlier visit on the left (in 16-bit
  /// gradient dtypes: widened, added, rounded once).
  virtual void backward(int unit, const TensorView& param, const TensorView& grad) = 0;
};

}  // namespace zeroproof
