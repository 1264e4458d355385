#pragma once
// One parallel region over all the pieces of a shard instead of one for each, because models have
// many small tensors.

#include <algorithm>
#include <cstddef>
#include <exception>
#include <memory>
#include <vector>

#include "common/base/span.hpp"
#include "common/layout/flat_layout.hpp"
#include "cuda/host/base/parallel_blocks.hpp"

namespace zeroproof::cuda {
class DevicePieceTable;  // cuda/comm/memory/device_space.cpp
}

namespace zeroproof::cuda::host {

/// The pieces of a shard, split into blocks of at most block_numel elements. Blocks start at chunk
/// boundaries of their tensor, because pieces do.
///
/// Threads share the work in *batches* of neighbouring blocks of about block_numel elements, so
/// that many small tensors are shared as evenly as few large ones.
class PieceLoop {
 public:
  explicit PieceLoop(const std::vector<Piece>& pieces) {
    for (const Piece& piece : pieces) {
      for (std::int64_t begin = 0; begin < piece.numel; begin += block_numel) {
        blocks_.push_back(piece.part(begin, block_numel));
      }
    }
    find_batches();
  }

  Span<const Piece> blocks() const { return blocks_; }

  /// The blocks in device memory, with the lifetime of the loop. Null until the device memory space
  /// makes them.
  std::shared_ptr<const DevicePieceTable>& device_table() const { return device_table_; }

  /// Calls body(serial_exec, block) for every block, on exec.num_threads threads; serial_exec is exec with
  /// one thread. The first exception is rethrown when all threads have ended.
  template <class Body>
  void run(const Exec& exec, const Body& body) const {
    run_batches<Nothing>(
        exec,
        [&](const Exec& serial, std::size_t begin, std::size_t end, Nothing&) {
          for (std::size_t i = begin; i < end; ++i) body(serial, blocks_[i]);
        },
        [](const Nothing&) {});
  }

  /// The same for work that does not depend on tensor boundaries: neighbours without padding
  /// between them, in the shard and in the global numbering, are passed as one block of at most
  /// block_numel elements if can_join(block, next) is true. It carries the name of the first tensor
  /// in it. Tensors start at chunk boundaries, so its chunks are theirs.
  template <class CanJoin, class Body>
  void run_joined(const Exec& exec, const CanJoin& can_join, const Body& body) const {
    sum_joined<Nothing>(
        exec, can_join,
        [&](const Exec& serial, const Piece& block, Nothing&) { body(serial, block); },
        [](const Nothing&) {});
  }

  /// The same for a sum: body(serial_exec, block, sum) adds to a Sum of the worker, and add(sum)
  /// takes the sum of each worker, one worker at a time. add() must not throw.
  template <class Sum, class CanJoin, class Body, class Add>
  void sum_joined(const Exec& exec, const CanJoin& can_join, const Body& body,
                  const Add& add) const {
    run_batches<Sum>(
        exec,
        [&](const Exec& serial, std::size_t begin, std::size_t end, Sum& sum) {
          while (begin < end) {
            Piece block = blocks_[begin++];
            for (; begin < end && follows(block, blocks_[begin]) && can_join(block, blocks_[begin]);
                 ++begin) {
              block.numel += blocks_[begin].numel;
            }
            body(serial, block, sum);
          }
        },
        add);
  }

 private:
  struct Nothing {};

  static bool follows(const Piece& block, const Piece& next) {
    return block.local_begin + block.numel == next.local_begin &&
           block.global_begin + block.numel == next.global_begin;
  }

  /// Combines neighbouring blocks of at most `most` elements together, or one block of any size.
  void find_batches() {
    constexpr std::size_t most_blocks =
        64;  // tensors of a few elements cost about as much as one of 200
    std::int64_t numel = 0;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      numel += blocks_[i].numel;
      if (!batches_.empty() && numel <= block_numel && i - batches_.back() < most_blocks) continue;
      batches_.push_back(i);
      numel = blocks_[i].numel;
    }
  }

  template <class Sum, class Body, class Add>
  void run_batches(const Exec& exec, const Body& body, const Add& add) const {
    Exec serial = exec;
    serial.num_threads = 1;
    const auto count = static_cast<std::int64_t>(batches_.size());
    const int threads =
        static_cast<int>(std::min<std::int64_t>(std::max(exec.num_threads, 1), count));
    if (threads <= 1) {
      Sum sum{};
      for (std::int64_t i = 0; i < count; ++i) body(serial, begin_of(i), begin_of(i + 1), sum);
      add(sum);
      return;
    }
    std::exception_ptr error;
#pragma omp parallel num_threads(threads)
    {
      Sum sum{};
#pragma omp for schedule(static)
      for (std::int64_t i = 0; i < count; ++i) {
        try {
          body(serial, begin_of(i), begin_of(i + 1), sum);
        } catch (...) {
#pragma omp critical(zeroproof_piece_loop)
          if (!error) error = std::current_exception();
        }
      }
#pragma omp critical(zeroproof_piece_loop)
      add(sum);
    }
    if (error) std::rethrow_exception(error);
  }

  std::size_t begin_of(std::int64_t batch) const {
    const auto at = static_cast<std::size_t>(batch);
    return at < batches_.size() ? batches_[at] : blocks_.size();
  }

  std::vector<Piece> blocks_;
  std::vector<std::size_t> batches_;  ///< first block of each
  mutable std::shared_ptr<const DevicePieceTable> device_table_;
};

}  // namespace zeroproof::cuda::host
