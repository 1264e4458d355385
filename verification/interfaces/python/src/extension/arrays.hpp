#pragma once
// Arrays of Python as the project's views, and memory of the project as arrays of Python: nothing is copied.

#include <memory>
#include <string>
#include <vector>

#include "common/base/span.hpp"
#include "verification/interfaces/python/src/extension/array_memory.hpp"

namespace zeroproof::python {

/// An array of another library: numpy, PyTorch, anything with __dlpack__ or a buffer. It keeps the
/// memory alive.
struct HostArray {
  TensorView view;
  std::vector<std::size_t> shape;
  std::shared_ptr<void> owner;

  template <class T>
  Span<T> as() const {
    return {static_cast<T*>(view.data), static_cast<std::size_t>(view.numel)};
  }
};

/// The array behind `object`, of any shape. bf16 and the fp8 formats may be passed as unsigned
/// integers of their width, which are their bits. `name`: its name in errors.
/// Errors: TypeError for no array or another element type, ValueError for a device, gaps between
/// elements, memory that is not aligned, and for a read-only array if it has to be writable.
HostArray host_array(const py::Object& object, const std::string& name, DType dtype, bool writable);

/// A row-major numpy array of memory that `owner` keeps alive. bf16 and the fp8 formats become unsigned integers.
py::Object numpy_array(const TensorView& view, const std::vector<std::size_t>& shape,
                       const py::Object& owner, bool writable = true);

/// A capsule that keeps a shared pointer alive.
template <class T>
py::Object owner_of(std::shared_ptr<T> pointer) {
  return py::Object::take(
      PyCapsule_New(new std::shared_ptr<T>(std::move(pointer)), nullptr, [](PyObject* capsule) {
        delete static_cast<std::shared_ptr<T>*>(PyCapsule_GetPointer(capsule, nullptr));
      }));
}

}  // namespace zeroproof::python
