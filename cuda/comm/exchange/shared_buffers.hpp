#pragma once
// Buffers that the other ranks of the machine can read in place.

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

  /// Collective over group, which must outlive this; null for a single rank. shapes: [group size],
  /// the buffers of every rank, identical on all of them. Errors: unavailable if the memory cannot
  /// be allocated.
  SharedBuffers(Communicator* group, std::vector<Shapes> shapes);

  /// This rank's i-th buffer; it must not outlive this object. Once for each. It initially contains
  /// NaN and is not changed when the returned object is destroyed: others may still read it.
  CountedBuffer mine(std::size_t i, MemoryLedger& ledger, MemoryClass kind) const;

  /// The i-th buffer of a rank of the group: between two fences it is either written by its owner
  /// or read by others.
  TensorView of(int rank, std::size_t i) const;

  /// Collective: earlier writes are visible to every rank afterwards.
  void fence() {
    if (window_) window_->fence();
  }

 private:
  std::byte* memory(int rank, std::size_t i) const;

  const int rank_;
  const std::vector<Shapes> shapes_;
  std::unique_ptr<SharedWindow> window_;  ///< null for a single rank
  GuardedBuffer alone_;                   ///< memory of a single rank
};

}  // namespace zeroproof::cuda
