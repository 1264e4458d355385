#pragma once
// Gradients of the current micro-batch during a pass: one buffer per unit, and one per bucket that
// spans several units.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/span.hpp"
#include "cuda/optimizer/overlap/bucket_parts.hpp"
#include "cuda/optimizer/overlap/memory_ledger.hpp"

namespace zeroproof::cuda {

/// Every buffer is counted as MemoryClass::grad and, if poisoning is on, filled with NaN at its
/// allocation and before it is freed. Calls for the same unit or bucket must be ordered.
class UnitGrads {
 public:
  /// Errors: invalid_argument (bucket_parts). The ledger must outlive this.
  UnitGrads(std::vector<FlatRange> units, std::vector<FlatRange> buckets, DType dtype,
            MemoryLedger& ledger, BufferFill fill = BufferFill::poison);

  const std::vector<std::vector<BucketPart>>& parts() const { return parts_; }

  /// Errors: internal if the buffer exists already, or for a bucket inside one unit, which needs
  /// none.
  void allocate_unit(int unit);
  void allocate_bucket(int bucket);

  /// [unit numel], to be written. Errors: internal if it is not allocated, or sealed.
  TensorView unit(int unit) const;

  /// [bucket numel]: the bucket's own buffer, or its range of the gradient of the unit that
  /// contains it. Errors: internal if that is not allocated, or the unit's is not sealed.
  TensorView bucket(int bucket) const;

  /// The unit's gradient is complete: copies its parts of buckets that have a buffer of their own.
  /// Errors: internal if one of them is not allocated, or the unit is sealed already.
  void seal(int unit);

  /// Errors: internal if there is no buffer, or memory outside it was overwritten.
  void free_unit(int unit) { free(unit_buffers_[validate(unit, units_)], "unit", unit); }
  void free_bucket(int bucket) {
    free(bucket_buffers_[validate(bucket, buckets_)], "bucket", bucket);
  }

  /// Frees all buffers, after an error.
  void free_all();

 private:
  struct Buffer {
    bool is_alive = false;
    bool is_sealed = false;
    CountedBuffer memory;
  };
  static std::size_t validate(int index, const std::vector<FlatRange>& ranges);
  void allocate(Buffer& buffer, FlatRange range, const char* what, int index);
  static void free(Buffer& buffer, const char* what, int index);
  static TensorView view(const Buffer& buffer, const char* what, int index);

  const std::vector<FlatRange> units_, buckets_;
  const std::vector<std::vector<BucketPart>> parts_;  // [buckets]
  const std::vector<std::vector<int>> unit_buckets_;  // [units]
  const DType dtype_;
  const BufferFill fill_;
  MemoryLedger& ledger_;
  std::vector<Buffer> unit_buffers_, bucket_buffers_;
};

/// Elements `range` of a view that starts at element `begin` of the same numbering.
TensorView stretch(const TensorView& view, std::int64_t begin, FlatRange range);

}  // namespace zeroproof::cuda
