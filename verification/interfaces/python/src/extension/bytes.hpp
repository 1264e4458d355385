#pragma once
// Elements that cross between Python and C++ as their bytes, with the name that safetensors has for their type.

#include <cstddef>
#include <cstdint>

#include "common/base/span.hpp"
#include "verification/interfaces/python/src/extension/array_memory.hpp"

namespace zeroproof::python {

/// An array of bytes, of one dimension and without gaps.
struct Bytes {
  ArrayMemory memory;

  Span<const std::byte> span() const {
    return {static_cast<const std::byte*>(memory.data), static_cast<std::size_t>(memory.numel)};
  }
};

}  // namespace zeroproof::python

template <>
struct zeroproof::py::Converter<zeroproof::python::Bytes> {
  static std::optional<zeroproof::python::Bytes> from(const Object& object) {
    std::string why;
    std::optional<zeroproof::python::ArrayMemory> memory =
        zeroproof::python::array_memory(object, why);
    if (!memory || memory->shape.size() != 1 || memory->code != zeroproof::python::code_uint ||
        memory->bits != 8 || !memory->is_dense || memory->device != zeroproof::python::host_device)
      return std::nullopt;
    return zeroproof::python::Bytes{*std::move(memory)};
  }
};
