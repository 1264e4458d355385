#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "common/base/span.hpp"
#include "cuda/device/kernels/bulk/batched_copy.hpp"
#include "cuda/device/runtime/raw_array.hpp"
#include "cuda/device/runtime/runtime.hpp"

namespace zeroproof::cuda {

/// Moves in device memory, and what a batched copy of them works in. Memory of the current stream.
class MoveTable {
 public:
  explicit MoveTable(Span<const device::Move> moves);

  void enqueue() const;

  std::int64_t num_bytes() const { return memory_.num_bytes(); }

 private:
  std::int64_t count_;
  DeviceArray<std::byte> memory_;  ///< the scratch, aligned as it came, and the moves behind it
};

/// The batches of moves that one stream is given. A step makes the same moves again and again, so their tables stay in
/// device memory, found by what is in them: the second time nothing travels and nothing is allocated.
///
/// Few moves are enqueued one by one. A graph keeps the table of its moves to itself; moves that come up first while it
/// is captured become copies of their own, because nothing can be allocated then.
class MoveTables {
 public:
  /// Enqueues them on the current stream, in no order, as enqueue_batched_copy() does; the span is the caller's again.
  void enqueue(Span<const device::Move> moves);

  static constexpr std::size_t few_moves = 3;  ///< a batch costs about as much as so many copies

 private:
  using Moves = std::vector<device::Move>;
  struct Kept {
    Moves moves;
    std::shared_ptr<const MoveTable> table;
  };

  static std::uint64_t digest(const Moves& moves);
  std::shared_ptr<const MoveTable> find(std::uint64_t key);
  std::shared_ptr<const MoveTable> make(std::uint64_t key);

  Moves wanted_;                                  // those of the call that have a length
  std::unordered_map<std::uint64_t, Kept> kept_;  // by digest
  std::int64_t kept_bytes_ = 0;                   // of device memory
};

}  // namespace zeroproof::cuda
