#pragma once

#include <string>

#include "common/base/error.hpp"
#include "common/base/span.hpp"

namespace zeroproof::cuda::device {

/// Throws Error(invalid_argument) unless both spans have the same number of elements.
template <class A, class B>
void require_same_numel(const char* a_name, Span<A> a, const char* b_name, Span<B> b) {
  ZP_CHECK(a.size() == b.size(), ErrorCode::invalid_argument,
           std::string(a_name) + " has " + std::to_string(a.size()) + " elements but " + b_name +
               " has " + std::to_string(b.size()),
           "a kernel would touch memory beyond the shorter one",
           "pass spans of the same global range");
}

/// Throws Error(invalid_argument) unless b has as many elements as a with the option, and none
/// without it.
template <class A, class B>
void require_numel_if(bool option, const char* option_name, const char* a_name, Span<A> a,
                      const char* b_name, Span<B> b) {
  if (option) {
    require_same_numel(a_name, a, b_name, b);
    return;
  }
  ZP_CHECK(
      b.empty(), ErrorCode::invalid_argument,
      std::string(b_name) + " has " + std::to_string(b.size()) + " elements without " + option_name,
      "no rule would update this state", "pass an empty span, or set the option");
}

}  // namespace zeroproof::cuda::device
