#pragma once
// One global numbering of all elements, independent of world size, stage and bucket (R13).

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace zeroproof {

/// Tensors start, and shards are split, at multiples of this many elements.
inline constexpr std::int64_t layout_alignment = 1024;

/// A parameter as the model registers it. A dimension of 0 is normal; no dimension means one element.
struct ParamSpec {
  std::string name;
  std::vector<std::int64_t> shape;

  std::int64_t numel() const;
};

/// Half-open range of global flat indices, padding included.
struct FlatRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t numel() const { return end - begin; }
  bool operator==(const FlatRange&) const = default;
};

struct TensorSlot {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t numel = 0;
  std::int64_t begin =
      0;  ///< global flat index of its first element, a multiple of layout_alignment
};

/// Part of one tensor inside a shard: the only index ranges arithmetic may touch (never padding).
struct Piece {
  std::int64_t tensor = 0;        ///< index into FlatLayout::tensors()
  std::int64_t tensor_begin = 0;  ///< first element, counted from the tensor's start
  std::int64_t global_begin = 0;  ///< the same element in the global numbering
  std::int64_t local_begin = 0;   ///< the same element in the shard buffer
  std::int64_t numel = 0;         ///< >= 1

  /// At most `most` elements of it, from its element `begin` on.
  Piece part(std::int64_t begin, std::int64_t most) const {
    return {tensor, tensor_begin + begin, global_begin + begin, local_begin + begin,
            std::min(most, numel - begin)};
  }
};

class FlatLayout {
 public:
  /// Registration order is kept. Errors: invalid_argument for a negative dimension, a repeated or empty name,
  /// or more elements than 2^63 / 16.
  explicit FlatLayout(const std::vector<ParamSpec>& params);

  const std::vector<TensorSlot>& tensors() const { return tensors_; }
  std::int64_t numel() const { return numel_; }  ///< elements of all tensors
  std::int64_t padded_numel() const {
    return padded_numel_;
  }  ///< with padding, a multiple of layout_alignment

  /// Tensor that holds a global index, or -1 for padding.
  std::int64_t tensor_at(std::int64_t global_index) const;

  /// Coordinates of a global index inside its tensor, "[3, 17]"; "padding" outside every tensor.
  std::string coordinates(std::int64_t global_index) const;

  /// The pieces of the tensors within the ranges, in order; local indices run through the ranges in
  /// order. Takes time in proportion to ranges and pieces, times the logarithm of the tensors.
  std::vector<Piece> pieces(const std::vector<FlatRange>& ranges) const;

 private:
  std::vector<TensorSlot> tensors_;
  std::int64_t numel_ = 0;
  std::int64_t padded_numel_ = 0;
};

}  // namespace zeroproof
