#pragma once

#include <string>

#include "common/base/error.hpp"

namespace zeroproof::cuda::host {

/// Throws invalid_argument unless the two buffers have the same number of elements.
inline void require_same_numel(const char* op, const char* a, std::size_t numel_a, const char* b,
                               std::size_t numel_b) {
  ZP_CHECK(numel_a == numel_b, ErrorCode::invalid_argument,
           std::string(op) + ": " + a + " has " + std::to_string(numel_a) + " elements but " + b + " has " +
               std::to_string(numel_b),
           "the kernel would read or write past the end of the shorter one", "pass views of the same range");
}

}  // namespace zeroproof::cuda::host
