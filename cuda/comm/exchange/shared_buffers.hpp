#pragma once
// Buffers that the other ranks of the machine can read where they are.

#include <cstdint>
#include <memory>
#include <vector>

#include "common/comm/communicator.hpp"
#include "cuda/optimizer/overlap/memory_ledger.hpp"

namespace zeroproof::cuda {

class SharedBuffers {
 public:
  struct Shape {
    std::int64_t numel = 0;
    DType dtype = DType::fp32;
  };
  using Shapes = std::vector<Shape>;

  /// Collective over group, which must outlive this; null for a rank by itself. shapes: [group size] what every rank
  /// has, known to all of them. Errors: unavailable if the memory is not there.
  SharedBuffers(Communicator* group, std::vector<Shapes> shapes);

  /// This rank's i-th buffer, counted as long as the object lives, which is no longer than this one. Once for each. It
  /// is born as NaN, and stays as it is when the object goes: others may still read it.
  CountedBuffer mine(std::size_t i, MemoryLedger& ledger, MemoryClass kind) const;

  /// The i-th buffer of a rank of the group: between two fences either written by its owner or read by others.
  TensorView of(int rank, std::size_t i) const;

  /// Collective: what was written before is seen by every rank afterwards.
  void fence() {
    if (window_) window_->fence();
  }

 private:
  std::byte* memory(int rank, std::size_t i) const;

  const int rank_;
  const std::vector<Shapes> shapes_;
  std::unique_ptr<SharedWindow> window_;  ///< null for a rank by itself
  GuardedBuffer alone_;                   ///< its memory then
};

}  // namespace zeroproof::cuda
