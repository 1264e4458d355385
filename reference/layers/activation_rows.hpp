#pragma once
// Iteration of activations over rows, and argument checks of their views.

#include "reference/blocks.hpp"
#include "reference/checks.hpp"

namespace zeroproof::reference {

/// Rows of `columns` elements, shared by the views of one call.
struct ActivationRows {
  std::int64_t columns;
  std::int64_t rows;
};

/// Throws invalid_argument unless `y` has whole rows of `columns` elements.
ActivationRows check_rows(const char* operation, std::int64_t columns, std::size_t y_numel);

/// Throws invalid_argument unless an optional buffer is empty or has `numel` elements.
void check_optional_elements(const char* operation, const char* buffer, std::size_t buffer_numel,
                             std::int64_t numel);

/// Throws invalid_argument unless a buffer has `numel` elements.
void check_elements(const char* operation, const char* buffer, std::size_t buffer_numel,
                    std::int64_t numel);

/// A range of a row, at most 1024 elements long.
struct Stretch {
  std::int64_t row;
  std::int64_t columns;  ///< of a row of y
  std::int64_t first;    ///< within the row
  std::int64_t count;

  /// From a view with rows of `columns` elements: x and y of an activation of one input.
  template <class T>
  auto of(Span<T> view) const {
    return as_array(part(view, row * columns + first, count));
  }
  /// From the first half of rows of 2 * columns elements.
  template <class T>
  auto gate(Span<T> view) const {
    return as_array(part(view, 2 * row * columns + first, count));
  }
  /// From their second half.
  template <class T>
  auto linear(Span<T> view) const {
    return as_array(part(view, (2 * row + 1) * columns + first, count));
  }
  /// x + bias, where `bias` begins at `offset` in a vector that may be empty: then there is no
  /// addition.
  Block with_bias(ConstArray x, Span<const float> bias, std::int64_t offset) const {
    if (bias.empty()) return x;
    return x + as_array(part(bias, offset + first, count));
  }
};

/// Calls body(stretch) for consecutive ranges that cover all rows.
template <class Body>
void for_each_stretch(const ActivationRows& shape, Body body) {
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    for_each_block(shape.columns, [&](std::int64_t first, std::int64_t count) {
      body(Stretch{row, shape.columns, first, count});
    });
  }
}

/// values * weight of the row; the values themselves if there are no weights.
inline Block weighted(const Block& values, Span<const float> weight, std::int64_t row) {
  if (weight.empty()) return values;
  return values * weight[row];
}

}  // namespace zeroproof::reference
