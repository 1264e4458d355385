#pragma once
// Who owns which elements of the flat layout. Data only: the bits of a step never depend on it (R13).

#include <cstdint>
#include <vector>

#include "common/layout/flat_layout.hpp"

namespace zeroproof {

/// The flat range is cut into buckets; inside every bucket rank r owns one slice, cut at multiples of
/// layout_alignment. Slices may be empty; every element has exactly one owner.
class ShardMap {
 public:
  /// Units    padded_numel, bucket_numel: elements, multiples of layout_alignment; bucket_numel >= 1024.
  /// Errors   invalid_argument if world_size < 1, or a count is negative or not a multiple of
  ///          layout_alignment.
  ShardMap(std::int64_t padded_numel, int world_size, std::int64_t bucket_numel);

  int world_size() const { return world_size_; }
  std::int64_t padded_numel() const { return padded_numel_; }

  /// Buckets in increasing order; together they cover [0, padded_numel) once.
  const std::vector<FlatRange>& buckets() const { return buckets_; }

  /// The slice of one bucket that a rank owns, possibly empty. Slices of a bucket differ by at most
  /// layout_alignment elements. Errors: invalid_argument if there is no such bucket or rank.
  FlatRange slice(std::size_t bucket, int rank) const;

  /// Everything a rank owns, in increasing order, neighbours merged, no empty range.
  std::vector<FlatRange> shard(int rank) const;

  /// Elements a rank owns, padding included.
  std::int64_t shard_numel(int rank) const;

 private:
  int world_size_;
  std::int64_t padded_numel_;
  std::vector<FlatRange> buckets_;
};

}  // namespace zeroproof
