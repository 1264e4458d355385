#pragma once
// Views of values in any memory: of a node or micro-batch gradient of a gradient sum, of
// parameters, of bins.

#include <cstddef>
#include <cstdint>

#include "common/layout/flat_layout.hpp"
#include "cuda/host/fold_plan.hpp"

namespace zeroproof::cuda {

/// The values of one node or gradient over a bucket or over a rank's packed part of it. Flat values
/// start at a global index and are addressed by it, packed ones by the local index of a piece.
class NodeValues {
 public:
  NodeValues() = default;

  static NodeValues flat(const TensorView& view, std::int64_t base) { return {view, base}; }
  static NodeValues packed(const TensorView& view) { return {view, packed_base}; }

  const TensorView& view() const { return view_; }
  std::int64_t base() const { return base_; }
  bool is_packed() const { return base_ == packed_base; }
  bool exists() const { return view_.data != nullptr; }

  /// Address that element 0 of the model would have: equal for flat values with the same placement.
  std::uintptr_t origin() const {
    return reinterpret_cast<std::uintptr_t>(view_.data) -
           static_cast<std::uintptr_t>(base_ * num_bytes(view_.dtype));
  }

  std::int64_t index(const Piece& piece) const {
    return is_packed() ? piece.local_begin : piece.global_begin - base_;
  }

  /// The elements of a piece; T is the type of the view's dtype.
  template <class T>
  Span<T> part(const Piece& piece) const {
    return {static_cast<T*>(view_.data) + index(piece), static_cast<std::size_t>(piece.numel)};
  }
  Span<std::byte> bytes(const Piece& piece) const {
    const std::int64_t width = num_bytes(view_.dtype);
    return {static_cast<std::byte*>(view_.data) + index(piece) * width,
            static_cast<std::size_t>(piece.numel * width)};
  }
  host::GradStretch operand(const Piece& piece) const {
    return {static_cast<const std::byte*>(view_.data) + index(piece) * num_bytes(view_.dtype),
            view_.dtype};
  }

 private:
  static constexpr std::int64_t packed_base = -1;
  NodeValues(const TensorView& view, std::int64_t base) : view_(view), base_(base) {}

  TensorView view_;
  std::int64_t base_ = packed_base;
};

}  // namespace zeroproof::cuda
