#pragma once
// Digests of a step that do not depend on the sharding: sums, modulo 2^64, of a number for every
// element, computed from its bits and its position in the undistributed model. Ranks add their sums
// in any order.

#include <cstdint>
#include <map>
#include <vector>

#include "common/base/thread_pool.hpp"
#include "common/checkpoint/own_pieces.hpp"

namespace zeroproof {

/// Added to bits, so that a zero contributes too.
inline constexpr std::uint32_t element_salt = 0x5bd1e995u;

/// Odd, and different for most positions.
inline std::uint32_t element_factor(std::uint32_t place_low, std::uint32_t place_high) {
  std::uint32_t factor = (place_low * 0x9e3779b1u) ^ (place_high * 0x9e3779b1u);
  factor = (factor ^ (factor >> 16)) * 0x85ebca6bu;
  return (factor ^ (factor >> 13)) | 1u;
}

/// The number of one element: its bits, times an odd number derived from its position. One element
/// that differs is always detected, two exchanged elements are unless their factors are equal, and
/// it takes a third of a nanosecond (the multilinear family of Carter and Wegman, 1979, with mixed
/// instead of drawn factors). A NaN counts as the canonical one.
inline std::uint64_t element_number(std::uint64_t place, std::uint32_t bits) {
  const auto low = static_cast<std::uint32_t>(place),
             high = static_cast<std::uint32_t>(place >> 32);
  return static_cast<std::uint64_t>(bits ^ element_salt) * element_factor(low, high);
}

class ElementSums {
 public:
  /// A bucket is a range of bucket_numel() elements of the undistributed numbering of R13: the same for every layout,
  /// and at most 64 of them. own: elements of this rank (own_pieces). num_threads: the caller included.
  ElementSums(const FlatLayout& whole, std::vector<OwnPiece> own, int num_threads = 1);

  std::int64_t bucket_numel() const { return bucket_numel_; }
  std::int64_t num_buckets() const { return num_buckets_; }

  /// Adds a buffer that the optimizer exposes; replaces earlier sums of the same id. fp32, bf16 or
  /// fp16.
  void add(const ExposedBuffer& buffer);

  /// By buffer: [num_buckets], over all ranks; clears the sums. Collective: every rank has added
  /// the same buffers.
  std::map<BufferId, std::vector<std::uint64_t>> take(Communicator& world);

 private:
  /// Elements of one bucket that are neighbours in the undistributed model and in the memory of a
  /// buffer.
  struct Run {
    std::int64_t place, at, numel;
  };
  std::vector<Run> runs_of(const ExposedBuffer& buffer) const;

  const FlatLayout& whole_;
  std::vector<OwnPiece> own_;
  ThreadPool thread_pool_;
  std::int64_t bucket_numel_, num_buckets_;
  std::map<BufferId, std::vector<std::uint64_t>> sums_;
};

}  // namespace zeroproof
