#pragma once
// Reductions of one row: its largest value, and sums in eight blocks.

#include <bit>
#include <cstdint>

#include "common/base/span.hpp"
#include "reference/layers/activation_rows.hpp"
#include "reference/layers/eight_blocks.hpp"

namespace zeroproof::reference {

/// A row of any width; unlike Block it may be longer than 1024 elements.
using Row = Eigen::ArrayXf;

/// Row `r` of a view with rows of `n` elements.
template <class T>
auto row_of(Span<T> view, std::int64_t r, std::int64_t n) {
  return as_array(part(view, r * n, n));
}

/// The largest of at least one value; NaN if one is NaN. Explicit comparisons (R4).
template <class Values>
float largest_of(const Values& values) {
  float largest = values[0];
  for (std::int64_t j = 0; j < values.size(); ++j) {
    if (values[j] > largest || values[j] != values[j]) largest = values[j];
    if (largest != largest) break;
  }
  return largest;
}

/// The sum of the values, in the blocks of a sum of `terms` terms; missing terms count +0.
template <class Values>
float sum_of(const Values& values, std::int64_t terms) {
  return sum_in_blocks(terms, [&](std::int64_t j) { return j < values.size() ? values[j] : 0.0F; });
}
template <class Values>
float sum_of(const Values& values) {
  return sum_of(values, values.size());
}

/// sums_j = the sum of term(r, j) over all rows.
template <class Term>
void sum_columns(std::int64_t rows, Span<float> sums, const Term& term) {
  for (std::int64_t j = 0; j < numel(sums); ++j) {
    sums[j] = sum_in_blocks(rows, [&](std::int64_t r) { return term(r, j); });
  }
}

}  // namespace zeroproof::reference
