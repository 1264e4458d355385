#pragma once
// Sets of global indices, and views that hold the elements of such a set one range after another.

#include <cstddef>
#include <vector>

#include "common/base/span.hpp"
#include "common/layout/flat_layout.hpp"
#include "reference/zero/sharded/message.hpp"

namespace zeroproof::reference {

/// Disjoint, in increasing order.
using FlatRanges = std::vector<FlatRange>;

std::int64_t numel_of(const FlatRanges& ranges);

/// What lies in both, without empty ranges.
FlatRanges intersect(const FlatRanges& a, const FlatRanges& b);

/// What lies in `range` and not in `holes`, without empty ranges.
FlatRanges without(const FlatRange& range, const FlatRanges& holes);

/// The elements of the ranges, one range after another: the whole flat buffer, a shard, a unit, ...
struct RangedView {
  TensorView view;  // [numel_of(ranges)]
  FlatRanges ranges;
};

/// The bytes of some global ranges, one range after another. Every one of them lies in from.ranges.
Message pack(const RangedView& from, const FlatRanges& ranges);

/// The same behind what the message has already.
void pack_behind(Message& message, const RangedView& from, const FlatRanges& ranges);

/// The way back: puts packed bytes where they belong in `into`. Every range lies in into.ranges.
void unpack(Span<const std::byte> packed, const FlatRanges& ranges, const RangedView& into);

}  // namespace zeroproof::reference
