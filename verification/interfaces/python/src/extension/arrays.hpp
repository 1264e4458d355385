#pragma once
// Arrays of Python as the project's views, and memory of the project as arrays of Python: nothing is copied.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <string>
#include <vector>

#include "common/base/span.hpp"

namespace zeroproof::python {

namespace nb = nanobind;

/// An array of another library: numpy, PyTorch, anything with __dlpack__ or a buffer. It keeps the
/// memory alive.
struct HostArray {
  TensorView view;
  std::vector<std::size_t> shape;
  nb::ndarray<nb::ro> holder;

  template <class T>
  Span<T> as() const {
    return {static_cast<T*>(view.data), static_cast<std::size_t>(view.numel)};
  }
};

/// The array behind `object`, of any shape. bf16 and the fp8 formats may be passed as unsigned
/// integers of their width, which are their bits. `name`: its name in errors.
/// Errors: TypeError for no array or another element type, ValueError for a device, gaps between
/// elements, memory that is not aligned, and for a read-only array if it has to be writable.
HostArray host_array(nb::handle object, const std::string& name, DType dtype, bool writable);

/// A row-major numpy array of memory that `owner` keeps alive. bf16 and the fp8 formats become unsigned integers.
nb::object numpy_array(const TensorView& view, const std::vector<std::size_t>& shape,
                       nb::handle owner, bool writable = true);

/// A capsule that keeps a shared pointer alive.
template <class T>
nb::capsule owner_of(std::shared_ptr<T> pointer) {
  return {new std::shared_ptr<T>(std::move(pointer)),
          [](void* held) noexcept { delete static_cast<std::shared_ptr<T>*>(held); }};
}

}  // namespace zeroproof::python
