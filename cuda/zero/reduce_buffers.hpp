#pragma once
// Memory of one gradient reduction: nodes of the tree where they were made or where they arrived, and message buffers.

#include <cstdint>
#include <utility>
#include <vector>

#include "common/step/distributed_optimizer.hpp"
#include "cuda/host/piece_loop.hpp"
#include "cuda/host/tree_stack.hpp"
#include "cuda/runtime/memory_ledger.hpp"
#include "cuda/zero/phase_ops.hpp"

namespace zeroproof::cuda {

/// The values of one node or leaf over a bucket or over a rank's packed part of it: a view of somebody's memory, or
/// memory of their own. Flat values start at a global index and are addressed by it, packed ones by the local index of
/// a piece.
class NodeValues {
 public:
  NodeValues() = default;

  static NodeValues flat(const TensorView& view, std::int64_t base) { return NodeValues(view, base); }
  static NodeValues packed(const TensorView& view) { return NodeValues(view, packed_base); }
  static NodeValues flat(CountedBuffer buffer, std::int64_t base) {
    return NodeValues(std::move(buffer), base);
  }
  static NodeValues packed(CountedBuffer buffer) { return NodeValues(std::move(buffer), packed_base); }

  /// The same values, whose memory stays with this object.
  NodeValues borrowed() const { return NodeValues(view_, base_); }

  const TensorView& view() const { return view_; }
  std::int64_t base() const { return base_; }
  bool exists() const { return view_.data != nullptr; }
  bool owns_memory() const { return owns_; }
  /// The memory, if these values have their own; they are gone then.
  CountedBuffer release() { return std::move(buffer_); }
  bool guards_intact() const { return !owns_ || buffer_->guards_intact(); }

  std::int64_t index(const Piece& piece) const {
    return base_ == packed_base ? piece.local_begin : piece.global_begin - base_;
  }

  /// The elements of a piece; T is the type of the view's dtype.
  template <class T>
  Span<T> part(const Piece& piece) const {
    return {static_cast<T*>(view_.data) + index(piece), static_cast<std::size_t>(piece.numel)};
  }

 private:
  static constexpr std::int64_t packed_base = -1;
  NodeValues(const TensorView& view, std::int64_t base) : view_(view), base_(base) {}
  NodeValues(CountedBuffer buffer, std::int64_t base)
      : buffer_(std::move(buffer)), view_(buffer_->view()), base_(base), owns_(true) {}

  CountedBuffer buffer_;
  TensorView view_;
  std::int64_t base_ = packed_base;
  bool owns_ = false;
};

using TreeStack = host::TreeStack<NodeValues>;

/// One message buffer: grows to the largest request and keeps that size until it is freed.
class CommBuffer {
 public:
  explicit CommBuffer(MemoryLedger& ledger) : ledger_(ledger) {}

  /// num_bytes of memory, 64-byte aligned. What an earlier call returned is gone.
  std::byte* take(std::int64_t num_bytes) {
    if (buffer_->numel() < num_bytes) {
      free();  // before the larger one is there, so that both never exist
      buffer_ = CountedBuffer(ledger_, MemoryClass::comm_buffer, num_bytes, DType::e4m3);  // one byte each
    }
    return static_cast<std::byte*>(buffer_->data());
  }
  void free() { buffer_ = CountedBuffer(); }

 private:
  MemoryLedger& ledger_;
  CountedBuffer buffer_;
};

/// What everything in a reduction works with.
struct ReduceTools {
  const OptimizerSetup& setup;
  const PhaseOps& ops;
  MemoryLedger& ledger;
  CommBuffer out{ledger};       ///< packed parts on their way to their owners
  CommBuffer in{ledger};        ///< what arrives here
  CommBuffer gathered{ledger};  ///< what instances, or TP ranks, tell each other

  void free_comm_buffers() {
    out.free();
    in.free();
    gathered.free();
  }

  /// Nodes that were added to others during the leaves of one step, poisoned and still counted: memory that is used
  /// again at once costs far less than memory the system gives and takes.
  std::vector<CountedBuffer> spare = {};
  bool keeps_spare = false;

  CountedBuffer node_buffer(std::int64_t numel);

  /// target[piece] = values[piece], widened to fp32.
  void widen(const Exec& exec, const NodeValues& values, const Piece& piece, Span<float> target) const;

  /// sum = the tree (R11) over the parts of a block, one or more, in this order.
  void fold(const Exec& exec, Span<const NodeValues> parts, const Piece& block, Span<float> sum) const;

  /// below = below + top over a loop. below is fp32.
  void add(const host::PieceLoop& loop, const NodeValues& below, const NodeValues& top) const;

  /// to = from as fp32 over a loop. to is fp32.
  void copy(const host::PieceLoop& loop, const NodeValues& from, const NodeValues& to) const;

  /// Errors: internal if a kernel wrote past the values' own memory.
  static void require_intact(const NodeValues& values);

  /// A stack that adds over a loop, which must outlive it.
  TreeStack make_stack(const host::PieceLoop& loop);

  /// Pushes a leaf. What stays on top gets memory of its own, from make_memory(); a leaf that is added at once is never
  /// copied.
  template <class MakeMemory>
  void push_leaf(TreeStack& stack, std::int64_t unit, NodeValues leaf, const host::PieceLoop& loop,
                 const MakeMemory& make_memory) {
    stack.push({0, unit}, std::move(leaf));
    NodeValues& top = stack.entries().back().values;
    if (top.owns_memory()) return;
    NodeValues own = make_memory();
    copy(loop, top, own);
    top = std::move(own);
  }
};

}  // namespace zeroproof::cuda
