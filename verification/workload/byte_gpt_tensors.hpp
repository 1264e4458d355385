#pragma once
// Where each tensor of the model stands in registration order, and views of the flat buffers by that order.

#include <cstdint>
#include <vector>

#include "common/base/span.hpp"
#include "common/layout/flat_layout.hpp"
#include "verification/workload/byte_gpt.hpp"
#include "verification/workload/matmul.hpp"

namespace zeroproof::workload {

/// Offsets inside one block. A weight is followed by its bias, a gain by its bias.
enum BlockTensor : int {
  attention_norm = 0,
  query = 2,
  key = 4,
  value = 6,
  attention_output = 8,
  mlp_norm = 10,
  mlp_up = 12,
  mlp_down = 14,
  tensors_per_block = 16,
};

inline constexpr int token_embedding = 0;
inline constexpr int position_embedding = 1;
inline constexpr int block_tensor(int block, BlockTensor which) {
  return 2 + block * tensors_per_block + which;
}
inline constexpr int final_norm(const ByteGptShape& shape) { return 2 + shape.layers * tensors_per_block; }
/// Not for tied embeddings.
inline constexpr int head(const ByteGptShape& shape) { return final_norm(shape) + 2; }

/// Errors: see byte_gpt_params.
void check_shape(const ByteGptShape& shape);

/// Errors: invalid_argument if the layout is not that of params (byte_gpt_params(shape)), or flat_numel not
/// its length.
void check_layout(const std::vector<ParamSpec>& params, const FlatLayout& layout, std::int64_t flat_numel);
void check_layout(const ByteGptShape& shape, const FlatLayout& layout, std::int64_t flat_numel);

/// The tensors of one flat buffer or of one unit of it, parameters (Real is const) or gradients, by index.
/// Does not own anything.
template <class Real>
class Tensors {
 public:
  /// flat: elements [first, first + numel) of the layout; only tensors in there may be asked for.
  Tensors(const FlatLayout& layout, Span<Real> flat, std::int64_t first = 0)
      : layout_(&layout), flat_(flat), first_(first) {}

  /// First element of a vector.
  Real* vector(int tensor) const { return flat_.data() + (slot(tensor).begin - first_); }

  Matrix<Real> matrix(int tensor) const {
    return {vector(tensor), slot(tensor).shape[0], slot(tensor).shape[1]};
  }

 private:
  const TensorSlot& slot(int tensor) const { return layout_->tensors()[static_cast<std::size_t>(tensor)]; }

  const FlatLayout* layout_;
  Span<Real> flat_;
  std::int64_t first_;
};

}  // namespace zeroproof::workload
