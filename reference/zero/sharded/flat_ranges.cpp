#include "reference/zero/sharded/flat_ranges.hpp"

#include <algorithm>

namespace zeroproof::reference {
namespace {

std::size_t byte_count(const TensorView& view, std::int64_t elements) {
  return static_cast<std::size_t>(elements * num_bytes(view.dtype));
}

/// Calls body(bytes) for every contiguous part of the view's memory in the ranges, in their order.
template <class Body>
void for_each_stretch(const RangedView& held, const FlatRanges& ranges, Body body) {
  std::byte* const memory = static_cast<std::byte*>(held.view.data);
  for (const FlatRange& range : ranges) {
    std::int64_t local = 0;
    for (const FlatRange& here : held.ranges) {
      const std::int64_t begin = std::max(range.begin, here.begin);
      const std::int64_t end = std::min(range.end, here.end);
      if (begin < end) {
        body(Span<std::byte>(memory + byte_count(held.view, local + begin - here.begin),
                             byte_count(held.view, end - begin)));
      }
      local += here.numel();
    }
  }
}

}  // namespace

std::int64_t numel_of(const FlatRanges& ranges) {
  std::int64_t numel = 0;
  for (const FlatRange& range : ranges) numel += range.numel();
  return numel;
}

FlatRanges intersect(const FlatRanges& a, const FlatRanges& b) {
  FlatRanges both;
  for (const FlatRange& left : a) {
    for (const FlatRange& right : b) {
      const FlatRange common{std::max(left.begin, right.begin), std::min(left.end, right.end)};
      if (common.numel() > 0) both.push_back(common);
    }
  }
  return both;
}

FlatRanges without(const FlatRange& range, const FlatRanges& holes) {
  FlatRanges rest;
  std::int64_t begin = range.begin;
  for (const FlatRange& hole : intersect({range}, holes)) {
    if (begin < hole.begin) rest.push_back({begin, hole.begin});
    begin = hole.end;
  }
  if (begin < range.end) rest.push_back({begin, range.end});
  return rest;
}

Message pack(const RangedView& from, const FlatRanges& ranges) {
  Message message;
  pack_behind(message, from, ranges);
  return message;
}

void pack_behind(Message& message, const RangedView& from, const FlatRanges& ranges) {
  message.reserve(message.size() + byte_count(from.view, numel_of(ranges)));
  for_each_stretch(from, ranges, [&](Span<const std::byte> stretch) { append(message, stretch); });
}

void unpack(Span<const std::byte> packed, const FlatRanges& ranges, const RangedView& into) {
  for_each_stretch(into, ranges, [&](Span<std::byte> stretch) {
    std::ranges::copy(packed.first(stretch.size()), stretch.begin());
    packed = packed.subspan(stretch.size());
  });
}

}  // namespace zeroproof::reference
