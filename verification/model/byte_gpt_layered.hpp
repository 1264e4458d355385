#pragma once
// byte_gpt layer by layer, on memory of the optimizer.

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "common/layout/flat_layout.hpp"
#include "common/step/layered_model.hpp"
#include "verification/model/byte_gpt.hpp"
#include "verification/model/byte_gpt_place.hpp"

namespace zeroproof::workload {

template <class Real>
class BytePass;

struct ByteGptMicroBatch {
  Span<const std::uint8_t> tokens;  ///< [2 to context + 1], copied
  float loss_scale = 1;
};

/// Supplies a micro-batch by its number.
using ByteGptData = std::function<ByteGptMicroBatch(std::int64_t micro_batch)>;

/// Called when the gradient of a tensor with elements is complete, with that gradient in the
/// gradient dtype; the callback may change it.
using AfterGrad = std::function<void(std::int64_t micro_batch, int tensor, const TensorView& grad)>;

/// Units are {both embeddings}, {block 0}, ..., {final norm, head}. With tied embeddings the last
/// unit is the final norm alone, and the embeddings are visited again as the head.
///
/// Exact    parameters are widened to fp32, gradients computed in fp32 and rounded once to the
///          gradient dtype, so fp32 gradients have the bits of byte_gpt_loss_and_grad. A tied
///          gradient in a 16-bit gradient dtype is rounded after each of its two visits
///          (LayeredModel).
/// Errors   Error(invalid_argument): units in another order than visits(), a view of another length
///          than its unit, dtypes other than fp32, bf16 and fp16, tokens as byte_gpt_loss_and_grad.
class ByteGptLayered : public LayeredModel {
 public:
  explicit ByteGptLayered(const ByteGptShape& shape, ByteGptData data, AfterGrad after_grad = {},
                          InstructionSet set = best_instruction_set());
  ~ByteGptLayered() override;

  /// Of byte_gpt_params(shape), or of one TP rank.
  const FlatLayout& layout() const { return layout_; }
  const std::vector<FlatRange>& units() const override { return units_; }
  const std::vector<int>& visits() const override { return visits_; }

  void begin(std::int64_t micro_batch) override;
  void forward(int unit, const TensorView& param) override;
  void backward(int unit, const TensorView& param, const TensorView& grad) override;

  /// Of the last micro-batch with a completed forward pass, in nats, unscaled. NaN before.
  double loss() const { return loss_; }

 protected:
  ByteGptLayered(const ByteGptShape& shape, const ByteGptGroups& groups, ByteGptData data,
                 AfterGrad after_grad, InstructionSet set);

 private:
  /// The index of the next visit; throws unless it is of `unit` in this direction.
  std::size_t next_visit(int unit, bool is_forward) const;
  void tell_complete(int unit, const TensorView& grad) const;

  ByteGptShape shape_;
  ByteGptPlace place_;
  ByteGptData data_;
  AfterGrad after_grad_;
  InstructionSet set_;
  FlatLayout layout_;
  std::vector<FlatRange> units_;
  std::vector<int> visits_;

  std::int64_t micro_batch_ = 0;
  std::vector<std::uint8_t> tokens_;
  float loss_scale_ = 1;
  std::unique_ptr<BytePass<float>> pass_;
  std::size_t steps_done_ = 0;  // forward and backward visits since begin()
  double loss_ = std::numeric_limits<double>::quiet_NaN();
};

/// One micro-batch on whole buffers, as in an optimizer without stage 3.
/// Shapes   params, leaf: [padded_numel], any dtypes of the model; padding is not read or written.
void run_layered(LayeredModel& model, std::int64_t micro_batch, const TensorView& params,
                 const TensorView& leaf);

}  // namespace zeroproof::workload
