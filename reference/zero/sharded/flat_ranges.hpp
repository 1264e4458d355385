#pragma once
// Sets of global indices, and views with the elements of such a set, one range after another.

#include <cstddef>
#include <vector>

#include "common/base/span.hpp"
#include "common/layout/flat_layout.hpp"
#include "reference/zero/sharded/message.hpp"

namespace zeroproof::reference {

/// Disjoint, in increasing order.
using FlatRanges = std::vector<FlatRange>;

std::int64_t numel_of(const FlatRanges& ranges);

/// The intersection of two sets, without empty ranges.
FlatRanges intersect(const FlatRanges& a, const FlatRanges& b);

/// The elements of `range` outside of `holes`, without empty ranges.
FlatRanges without(const FlatRange& range, const FlatRanges& holes);

/// The elements of the ranges, one range after another: the whole flat buffer, a shard, a unit, ...
struct RangedView {
  TensorView view;  // [numel_of(ranges)]
  FlatRanges ranges;
};

/// The bytes of some global ranges, one range after another. All of them are in from.ranges.
Message pack(const RangedView& from, const FlatRanges& ranges);

/// Appends these bytes to a message.
void pack_behind(Message& message, const RangedView& from, const FlatRanges& ranges);

/// The inverse of pack: copies packed bytes to their places in `into`. All ranges are in
/// into.ranges.
void unpack(Span<const std::byte> packed, const FlatRanges& ranges, const RangedView& into);

}  // namespace zeroproof::reference
