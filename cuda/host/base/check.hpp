#pragma once

#include <string>
#include <string_view>

#include "common/base/error.hpp"

namespace zeroproof::cuda::host {

/// Throws invalid_argument unless the two buffers have the same number of elements.
inline void require_same_numel(const char* op, const char* a, std::size_t numel_a, const char* b,
                               std::size_t numel_b) {
  ZP_CHECK(numel_a == numel_b, ErrorCode::invalid_argument,
           std::string(op) + ": " + a + " has " + std::to_string(numel_a) + " elements but " + b +
               " has " + std::to_string(numel_b),
           "the kernel would read or write past the end of the shorter one",
           "pass views of the same range");
}

/// Throws invalid_argument unless a buffer that exists only with an option has as many elements as
/// grad when the option is on, and none otherwise.
inline void require_optional_numel(const char* op, std::size_t grad_numel, std::string_view buffer,
                                   std::size_t numel, bool wanted, const char* option) {
  const std::size_t expected = wanted ? grad_numel : 0;
  ZP_CHECK(numel == expected, ErrorCode::invalid_argument,
           std::string(op) + ": " + std::string(buffer) + " has " + std::to_string(numel) +
               " elements but " + option +
               (wanted ? " is on and grad has " : " is off and it should have ") +
               std::to_string(expected),
           "the option decides whether this state exists",
           std::string("pass a view of the same range with ") + option + ", an empty one without");
}

}  // namespace zeroproof::cuda::host
