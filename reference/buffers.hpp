#pragma once
// Buffers of the optimizers. Everything is allocated full of NaN and padding is never written: an
// operation that reads padding produces a NaN (R13).

#include <functional>
#include <variant>
#include <vector>

#include "common/base/span.hpp"
#include "common/layout/flat_layout.hpp"

namespace zeroproof::reference {

std::vector<float> nan_buffer(std::int64_t numel);

/// The elements of a piece in a buffer that starts at local index 0.
inline Span<float> at(std::vector<float>& buffer, const Piece& piece) {
  return Span<float>(buffer).subspan(piece.local_begin, piece.numel);
}
inline Span<const float> at(Span<const float> buffer, const Piece& piece) {
  return buffer.subspan(piece.local_begin, piece.numel);
}

/// A view has no const: a caller with a view of const values must only read.
inline TensorView array_view(const std::vector<float>& values) {
  return {const_cast<float*>(values.data()), DType::fp32, static_cast<std::int64_t>(values.size())};
}

/// Views structs of 32- or 64-bit values as words of that type.
template <class T>
TensorView words_view(const std::vector<T>& values, DType dtype) {
  return {const_cast<T*>(values.data()), dtype,
          static_cast<std::int64_t>(values.size() * sizeof(T)) / num_bytes(dtype)};
}

/// A gradient in fp32, [view.numel], exact (R8). pieces: in increasing order; elements outside of
/// them become NaN, whatever they were.
/// Errors: invalid_argument if the gradient is not fp32, bf16 or fp16.
std::vector<float> widen_leaf(const TensorView& leaf, const std::vector<Piece>& pieces);

/// Parameters as the model reads them, or the codes that it reads with scales
/// (reference/param_scales.hpp).
class ParamBuffer {
 public:
  ParamBuffer() = default;
  /// Errors: invalid_argument if dtype is not fp32, bf16, fp16, e4m3 or e5m2.
  ParamBuffer(DType dtype, std::int64_t numel);

  /// RNE(master) over the pieces, by local index; in fp32 the bits of master (R6, R8). Errors:
  /// internal for e4m3 and e5m2.
  void round_from(Span<const float> master, const std::vector<Piece>& pieces);

  /// As round(), but rounded stochastically (R8, R15), bf16 only. step_of_tensor: applied updates
  /// of a tensor, which number the draw; global_begin of a piece: first index of the draw. Errors:
  /// invalid_argument for another dtype.
  void round_at_random(Span<const float> master, const std::vector<Piece>& pieces,
                       std::uint64_t seed,
                       const std::function<std::uint64_t(std::int64_t tensor)>& step_of_tensor);

  /// Copies the bits of a buffer of the same dtype and numel, in place.
  void copy_from(const ParamBuffer& other);

  /// The values over the pieces, exactly. Errors: internal for e4m3 and e5m2.
  void widen_into(std::vector<float>& values, const std::vector<Piece>& pieces) const;

  TensorView view() const;

 private:
  DType dtype_ = DType::fp32;
  // Its alternative is the type of dtype_.
  std::variant<std::vector<float>, std::vector<bf16>, std::vector<fp16>, std::vector<e4m3>,
               std::vector<e5m2>>
      values_;
};

}  // namespace zeroproof::reference
