#pragma once
// Elements that cross between Python and C++ as their bytes, with the name that safetensors has for their type.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>

#include "common/base/span.hpp"

namespace zeroproof::python {

/// A numpy array of bytes, of one dimension and without gaps.
using Bytes = nanobind::ndarray<const std::uint8_t, nanobind::ndim<1>, nanobind::c_contig,
                                nanobind::device::cpu>;

inline Span<const std::byte> span_of(const Bytes& bytes) {
  return {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()};
}

}  // namespace zeroproof::python
