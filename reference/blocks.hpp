#pragma once
// The arithmetic of the reference: one Eigen array expression per equation of the contract. Only
// elementwise expressions are used; an Eigen reduction of floats would add them in an order that
// Eigen chooses (R10).

#include <algorithm>
#include <cstdint>

#include <Eigen/Core>

#include "common/base/span.hpp"

namespace zeroproof::reference {

inline constexpr std::int64_t block_numel = 1024;

/// One named value of the contract (a1, h, q, ...) for up to 1024 elements, on the stack: a name
/// for each value costs neither an allocation nor main memory traffic.
using Block = Eigen::Array<float, Eigen::Dynamic, 1, Eigen::ColMajor, block_numel, 1>;

using ConstArray = Eigen::Map<const Eigen::ArrayXf>;
using MutableArray = Eigen::Map<Eigen::ArrayXf>;

inline ConstArray as_array(Span<const float> view) { return {view.data(), numel(view)}; }
inline MutableArray as_array(Span<float> view) { return {view.data(), numel(view)}; }

/// The part [begin, begin + count) of a view.
template <class T>
Span<T> part(Span<T> view, std::int64_t begin, std::int64_t count) {
  return view.subspan(begin, count);
}

/// Calls body(begin, count) for consecutive blocks that cover [0, numel); the last one may be
/// short.
template <class Body>
void for_each_block(std::int64_t numel, Body body) {
  for (std::int64_t begin = 0; begin < numel; begin += block_numel) {
    body(begin, std::min(block_numel, numel - begin));
  }
}

}  // namespace zeroproof::reference
