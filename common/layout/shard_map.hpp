#pragma once
// Owners of the elements of the flat layout. Data only: the bits of a step never depend on it
// (R13).

#include <cstdint>
#include <vector>

#include "common/layout/flat_layout.hpp"

namespace zeroproof {

/// One bucket: a range of the global numbering, and for every rank the parts of it that the rank owns.
struct Bucket {
  FlatRange range;
  std::vector<std::vector<FlatRange>>
      owned;  ///< [world_size]; each in increasing order, inside range, no empty range
};

/// The flat range is split into buckets; inside every bucket every element has exactly one owner. Padding may have none.
class ShardMap {
 public:
  /// The contract's layout: equal buckets; in each, rank r owns one slice, split at multiples of layout_alignment.
  ///
  /// Units    padded_numel, bucket_numel: elements, multiples of layout_alignment; bucket_numel >= 1024.
  /// Errors   invalid_argument if world_size < 1, or a count is negative or not a multiple of
  ///          layout_alignment.
  ShardMap(std::int64_t padded_numel, int world_size, std::int64_t bucket_numel);

  /// Any other layout (common/layout/peer_layouts.hpp).
  ///
  /// Shapes   buckets in increasing order, together [0, padded_numel) once.
  /// Errors   invalid_argument if they are not, or owned ranges overlap, leave their bucket, or are not given for
  ///          world_size ranks. covers() checks that every element has an owner.
  ShardMap(std::int64_t padded_numel, int world_size, std::vector<Bucket> buckets);

  int world_size() const { return world_size_; }
  std::int64_t padded_numel() const { return padded_numel_; }

  /// Buckets in increasing order; together they cover [0, padded_numel) once.
  const std::vector<FlatRange>& buckets() const { return buckets_; }

  /// Ranges of a bucket that a rank owns, in increasing order. Errors: invalid_argument if there is
  /// no such bucket or rank.
  const std::vector<FlatRange>& owned(std::size_t bucket, int rank) const;

  /// Elements of owned().
  std::int64_t owned_numel(std::size_t bucket, int rank) const;

  /// owned() as one range, empty ones included, of the contract's layout: slices of a bucket differ by at most
  /// layout_alignment elements. Errors: invalid_argument if there is no such bucket or rank, or in another layout.
  FlatRange slice(std::size_t bucket, int rank) const;

  /// Everything a rank owns, in increasing order, neighbours merged, no empty range. A shard buffer holds these
  /// elements one after another.
  std::vector<FlatRange> shard(int rank) const;

  /// Elements of shard(rank), padding included.
  std::int64_t shard_numel(int rank) const;

  /// True if every boundary between two owners is at a multiple of layout_alignment: the norm chunk1024 needs it.
  bool aligned() const { return aligned_; }

  /// True if every element of every tensor has an owner.
  bool covers(const FlatLayout& layout) const;

 private:
  int world_size_;
  std::int64_t padded_numel_;
  std::vector<FlatRange> buckets_;
  std::vector<std::vector<std::vector<FlatRange>>> owned_;  // [bucket][rank]
  bool contract_ = false;
  bool aligned_ = true;
};

}  // namespace zeroproof
