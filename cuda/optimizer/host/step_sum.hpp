#pragma once
// G of the running step: in the rank's buffer, or a single micro-batch gradient.

#include <algorithm>
#include <array>
#include <optional>

#include "common/layout/flat_layout.hpp"
#include "cuda/kernel_table.hpp"
#include "cuda/optimizer/overlap/memory_ledger.hpp"
#include "cuda/reduce/fold_epilogue.hpp"

namespace zeroproof::cuda {

class StepSum {
 public:
  /// buffer: [numel] fp32 of the elements whose state the rank has; it outlives this, as do the
  /// ops.
  StepSum(const CountedBuffer& buffer, const KernelTable& ops) : buffer_(buffer), ops_(ops) {}

  /// Starts a new step: G will be in the buffer.
  void begin() {
    leaf_.reset();
    in_buffer_ = true;
    checked_ = false;
    result_.clear();
  }

  /// Sets G to this gradient, [padded_numel] in the gradient dtype, which must stay valid until the
  /// update is done.
  void is_leaf(const TensorView& leaf) {
    leaf_ = leaf;
    in_buffer_ = false;
  }

  /// The gradient that is G, if it is one.
  const std::optional<TensorView>& leaf() const { return leaf_; }

  /// Whether the finite check and the norm were computed while G was added up.
  bool checked() const { return checked_; }
  void set_checked() { checked_ = true; }

  /// Of G, unscaled. The norm only if it was computed while G was added up.
  FoldResult& result() { return result_; }

  /// The buffer was overwritten after it was shown: it is G now, and has not been checked.
  void replaced() { begin(); }

  /// Calls body(piece, G of the piece) for all of a piece of the state, in one call or, for
  /// gradients in a 16-bit type, in ranges that start at multiples of the norm's chunk.
  template <class Body>
  void read(const Exec& exec, const Piece& piece, const Body& body) const {
    if (!leaf_) {
      const Span<float> all = buffer_->as<float>();
      return body(piece, Span<const float>(all.subspan(piece.local_begin, piece.numel)));
    }
    visit_param_format(leaf_->dtype, [&](auto format) {
      using T = typename decltype(format)::type;
      const Span<const T> all(static_cast<const T*>(leaf_->data),
                              static_cast<std::size_t>(leaf_->numel));
      read_leaf(exec, piece, all, body);
    });
  }

  /// Address of G of a piece of the state, in its stored type.
  host::GradStretch stretch(const Piece& piece) const {
    if (!leaf_) return {buffer_->as<float>().data() + piece.local_begin, DType::fp32};
    return {
        static_cast<const std::byte*>(leaf_->data) + piece.global_begin * num_bytes(leaf_->dtype),
        leaf_->dtype};
  }

  /// Makes sure that the buffer has G of a piece, for observers.
  void write_out(const Exec& exec, const Piece& piece) const {
    read(exec, piece, [&](const Piece& part, Span<const float> sum) {
      std::ranges::copy(sum, buffer_->as<float>().begin() + part.local_begin);
    });
  }
  bool in_buffer() const { return in_buffer_; }
  void set_in_buffer() { in_buffer_ = true; }

 private:
  template <class Body>
  void read_leaf(const Exec&, const Piece& piece, Span<const float> all, const Body& body) const {
    body(piece, all.subspan(piece.global_begin, piece.numel));
  }
  template <class T, class Body>
  void read_leaf(const Exec& exec, const Piece& piece, Span<const T> all, const Body& body) const {
    constexpr std::int64_t stretch_numel = 4096;  // stays in the first-level cache
    std::array<float, stretch_numel> wide;
    for (std::int64_t begin = 0; begin < piece.numel; begin += stretch_numel) {
      const Piece part = piece.part(begin, stretch_numel);
      const auto numel = static_cast<std::size_t>(part.numel);
      const Span<float> values(wide.data(), numel);
      ops_.widen(exec, all.subspan(part.global_begin, numel), values);
      body(part, Span<const float>(values));
    }
  }

  const CountedBuffer& buffer_;
  const KernelTable& ops_;
  std::optional<TensorView> leaf_;
  bool in_buffer_ = true;
  bool checked_ = false;
  FoldResult result_;
};

}  // namespace zeroproof::cuda
