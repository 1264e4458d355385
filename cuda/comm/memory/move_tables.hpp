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

/// Moves in device memory. Memory of the current stream.
class MoveTable {
 public:
  explicit MoveTable(Span<const device::Move> moves);

  void enqueue() const;

  std::int64_t num_bytes() const { return moves_.num_bytes(); }

 private:
  DeviceArray<device::Move> moves_;
};

/// The batches of moves of one stream. Steps repeat the same moves, so their tables stay in device
/// memory and are found by content: from the second time on nothing is transferred or allocated.
///
/// Few moves are enqueued one by one. A graph owns the table of its moves; moves that first occur
/// during its capture become separate copies, because nothing can be allocated then.
class MoveTables {
 public:
  /// The default holds the tables of all moves of a step many times over; a larger total means that
  /// addresses change from step to step, and no table is found again. All are then dropped.
  explicit MoveTables(std::int64_t most_kept_bytes = std::int64_t{64} << 20)
      : most_kept_bytes_(most_kept_bytes) {}

  /// Enqueues them on the current stream, in no order, like enqueue_batched_copy(); the span may be
  /// reused immediately.
  void enqueue(Span<const device::Move> moves);

  std::int64_t kept_bytes() const { return kept_bytes_; }  ///< of device memory

  static constexpr std::size_t few_moves = 3;  ///< a batch costs about as much as this many copies

 private:
  using Moves = std::vector<device::Move>;
  struct Kept {
    Moves moves;
    std::shared_ptr<const MoveTable> table;
  };

  static std::uint64_t digest(const Moves& moves);
  std::shared_ptr<const MoveTable> find(std::uint64_t key);
  std::shared_ptr<const MoveTable> make(std::uint64_t key);

  const std::int64_t most_kept_bytes_;
  Moves wanted_;                                  // nonempty moves of the call
  std::unordered_map<std::uint64_t, Kept> kept_;  // by digest
  std::int64_t kept_bytes_ = 0;
};

}  // namespace zeroproof::cuda
