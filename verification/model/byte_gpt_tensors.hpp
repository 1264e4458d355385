#pragma once
// The index of each tensor of the model in registration order, and views of flat buffers by that
// index.

#include <cstdint>
#include <vector>

#include "common/base/span.hpp"
#include "common/layout/flat_layout.hpp"
#include "verification/model/byte_gpt.hpp"
#include "verification/model/matmul.hpp"

namespace zeroproof::workload {

/// Layers of one block: the gain of a norm, the weight of another layer. A weight is followed by
/// its bias, the gain of a layer norm too; an RMS norm has no bias.
enum BlockTensor : int {
  attention_norm,
  query,
  key,
  value,
  attention_output,
  mlp_norm,
  mlp_gate,  ///< with swiglu only
  mlp_up,
  mlp_down,
};

inline constexpr int token_embedding = 0;
inline constexpr int position_embedding = 1;
/// Two fewer biases of norms, one more gate with its bias: the same for both kinds of blocks.
inline constexpr int tensors_per_block = 16;
inline constexpr int block_tensor(const ByteGptShape& shape, int block, BlockTensor which) {
  constexpr int with_gelu[] = {0, 2, 4, 6, 8, 10, -1, 12, 14};
  constexpr int with_swiglu[] = {0, 1, 3, 5, 7, 9, 10, 12, 14};
  return 2 + block * tensors_per_block + (shape.swiglu ? with_swiglu[which] : with_gelu[which]);
}
inline constexpr int final_norm(const ByteGptShape& shape) {
  return 2 + shape.layers * tensors_per_block;
}
/// Not for tied embeddings.
inline constexpr int head(const ByteGptShape& shape) {
  return final_norm(shape) + (shape.swiglu ? 1 : 2);
}

/// Errors: see byte_gpt_params.
void check_shape(const ByteGptShape& shape);

/// Errors: invalid_argument if the layout is not that of params (byte_gpt_params(shape)), or
/// flat_numel not its length.
void check_layout(const std::vector<ParamSpec>& params, const FlatLayout& layout,
                  std::int64_t flat_numel);
void check_layout(const ByteGptShape& shape, const FlatLayout& layout, std::int64_t flat_numel);

/// The tensors of a flat buffer or of one unit of it, parameters (Real is const) or gradients, by
/// index. Owns nothing.
template <class Real>
class Tensors {
 public:
  /// flat: elements [first, first + numel) of the layout; only tensors within it may be read.
  Tensors(const FlatLayout& layout, Span<Real> flat, std::int64_t first = 0)
      : layout_(&layout), flat_(flat), first_(first) {}

  /// First element of a vector.
  Real* vector(int tensor) const { return flat_.data() + (slot(tensor).begin - first_); }

  Matrix<Real> matrix(int tensor) const {
    return {vector(tensor), slot(tensor).shape[0], slot(tensor).shape[1]};
  }

 private:
  const TensorSlot& slot(int tensor) const { return layout_->tensors()[tensor]; }

  const FlatLayout* layout_;
  Span<Real> flat_;
  std::int64_t first_;
};

}  // namespace zeroproof::workload
