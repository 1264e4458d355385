#pragma once
// One parallel region over all the pieces of a shard, instead of one for each: a model has many small
// tensors.

#include <algorithm>
#include <exception>
#include <vector>

#include "common/layout/flat_layout.hpp"
#include "cuda/host/parallel_blocks.hpp"

namespace zeroproof::cuda::host {

/// The pieces of a shard, cut into blocks of at most block_numel elements. Blocks start at chunk boundaries
/// of their tensor, because pieces do.
class PieceLoop {
 public:
  explicit PieceLoop(const std::vector<Piece>& pieces) {
    for (const Piece& piece : pieces) {
      for (std::int64_t begin = 0; begin < piece.numel; begin += block_numel) {
        Piece block = piece;
        block.tensor_begin += begin;
        block.global_begin += begin;
        block.local_begin += begin;
        block.numel = std::min(block_numel, piece.numel - begin);
        blocks_.push_back(block);
      }
    }
  }

  /// The pieces as they are, uncut, for twins that split the work themselves.
  static PieceLoop whole(std::vector<Piece> pieces) {
    PieceLoop loop{std::vector<Piece>{}};
    loop.blocks_ = std::move(pieces);
    return loop;
  }

  /// Calls body(serial_exec, block) for every block, on exec.num_threads threads; serial_exec is exec with
  /// one thread. The first exception is rethrown when all threads have ended.
  template <class Body>
  void run(const Exec& exec, const Body& body) const {
    Exec serial = exec;
    serial.num_threads = 1;
    const auto count = static_cast<std::int64_t>(blocks_.size());
    const int threads = static_cast<int>(std::min<std::int64_t>(std::max(exec.num_threads, 1), count));
    if (threads <= 1) {
      for (const Piece& block : blocks_) body(serial, block);
      return;
    }
    std::exception_ptr error;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (std::int64_t i = 0; i < count; ++i) {
      try {
        body(serial, blocks_[static_cast<std::size_t>(i)]);
      } catch (...) {
#pragma omp critical(zeroproof_piece_loop)
        if (!error) error = std::current_exception();
      }
    }
    if (error) std::rethrow_exception(error);
  }

 private:
  std::vector<Piece> blocks_;
};

}  // namespace zeroproof::cuda::host
