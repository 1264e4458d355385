#pragma once
// Argument checks of activations, shared by host and device.

#include <cstdint>
#include <string>

#include "common/base/error.hpp"

namespace zeroproof::cuda::host {

/// Throws invalid_argument unless columns >= 1 and the buffer consists of whole rows of that many
/// elements.
inline void require_whole_rows(const char* op, const char* buffer, std::size_t numel,
                               std::int64_t columns) {
  ZP_CHECK(columns >= 1, ErrorCode::invalid_argument,
           std::string(op) + ": columns is " + std::to_string(columns),
           "a row has at least one element", "pass the number of columns");
  ZP_CHECK(numel % static_cast<std::size_t>(columns) == 0, ErrorCode::invalid_argument,
           std::string(op) + ": " + buffer + " has " + std::to_string(numel) +
               " elements, not a multiple of its " + std::to_string(columns) + " columns",
           "the last row would be incomplete", "pass whole rows");
}

inline void require_numel(const char* op, const char* buffer, std::size_t numel,
                          std::size_t expected) {
  ZP_CHECK(numel == expected, ErrorCode::invalid_argument,
           std::string(op) + ": " + buffer + " has " + std::to_string(numel) +
               " elements instead of " + std::to_string(expected),
           "the kernel would read or write past the end of a buffer",
           "pass buffers with the same rows");
}

inline void require_numel_or_none(const char* op, const char* buffer, std::size_t numel,
                                  std::size_t expected) {
  ZP_CHECK(numel == 0 || numel == expected, ErrorCode::invalid_argument,
           std::string(op) + ": " + buffer + " has " + std::to_string(numel) +
               " elements instead of " + std::to_string(expected) + " or none",
           "an optional buffer is complete or empty", "pass all its elements, or an empty buffer");
}

/// For a gated activation. y: or dy.
inline void require_gated(const char* op, std::int64_t columns, std::size_t x, std::size_t bias,
                          const char* y_name, std::size_t y) {
  require_whole_rows(op, y_name, y, columns);
  require_numel(op, "x", x, 2 * y);
  require_numel_or_none(op, "bias", bias, 2 * static_cast<std::size_t>(columns));
}

/// For one weight for each row.
inline void require_row_weights(const char* op, std::int64_t columns, std::size_t numel,
                                std::size_t weight) {
  require_numel_or_none(op, "weight", weight, numel / static_cast<std::size_t>(columns));
}

/// Throws invalid_argument unless the limit is 0, or positive and finite.
inline void require_limit(const char* op, float limit) {
  ZP_CHECK(limit >= 0.0F && limit < __builtin_inff(), ErrorCode::invalid_argument,
           std::string(op) + ": limit is " + std::to_string(limit),
           "it must be positive and finite, or 0 for none", "pass 0 for a gate without a limit");
}

}  // namespace zeroproof::cuda::host
