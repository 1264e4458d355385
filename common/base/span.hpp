#pragma once

#include <cstdint>
#include <span>

#include "common/base/dtype.hpp"

namespace zeroproof {

template <class T>
using Span = std::span<T>;

template <class T>
std::int64_t numel(Span<T> view) {
  return static_cast<std::int64_t>(view.size());
}

/// A typed view of memory that another object owns: the argument of observers, comparisons and
/// digests.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::fp32;
  std::int64_t numel = 0;

  std::int64_t num_bytes() const { return numel * zeroproof::num_bytes(dtype); }
};

}  // namespace zeroproof
