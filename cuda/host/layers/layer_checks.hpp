#pragma once
// What the operations of layers ask of their arguments, for the twins of the host and those of the device.

#include <cstdint>
#include <initializer_list>
#include <string>

#include "common/base/error.hpp"
#include "common/base/span.hpp"

namespace zeroproof::cuda::host {

/// A buffer, as errors call it.
struct NamedView {
  const char* name;
  std::size_t numel;
};

/// Throws invalid_argument unless value >= 1.
inline void require_at_least_one(const char* op, const char* what, std::int64_t value) {
  ZP_CHECK(value >= 1, ErrorCode::invalid_argument,
           std::string(op) + ": " + what + " is " + std::to_string(value),
           "a shape without elements has no rows to work on", "pass 1 or more");
}

/// numel / length. Throws invalid_argument unless that leaves no rest. length >= 1.
inline std::int64_t require_rows(const char* op, const char* what, std::size_t numel, std::int64_t length) {
  const auto count = static_cast<std::int64_t>(numel);
  ZP_CHECK(count % length == 0, ErrorCode::invalid_argument,
           std::string(op) + ": " + what + " has " + std::to_string(count) +
               " elements, which is no multiple of " + std::to_string(length),
           "a part of it would belong to nothing", "pass whole rows");
  return count / length;
}

/// Throws invalid_argument unless a buffer has as many elements as it should.
inline void require_numel(const char* op, const char* what, std::size_t numel, std::int64_t expected) {
  ZP_CHECK(static_cast<std::int64_t>(numel) == expected, ErrorCode::invalid_argument,
           std::string(op) + ": " + what + " has " + std::to_string(numel) + " elements and should have " +
               std::to_string(expected),
           "the kernel would read or write past its end", "pass a view of the shape that the contract names");
}

/// The same for several.
inline void require_numels(const char* op, std::initializer_list<NamedView> views, std::int64_t expected) {
  for (const NamedView& view : views) require_numel(op, view.name, view.numel, expected);
}

/// The same for rows * length elements, whatever that product is. length >= 0.
inline void require_matrix(const char* op, const char* what, std::size_t numel, std::int64_t rows,
                           std::int64_t length) {
  const auto count = static_cast<std::int64_t>(numel);
  const bool fits = length == 0 || rows == 0 ? count == 0 : count % length == 0 && count / length == rows;
  ZP_CHECK(fits, ErrorCode::invalid_argument,
           std::string(op) + ": " + what + " has " + std::to_string(count) + " elements and should be " +
               std::to_string(rows) + " rows of " + std::to_string(length),
           "the kernel would read or write past its end", "pass a view of the shape that the contract names");
}

}  // namespace zeroproof::cuda::host
