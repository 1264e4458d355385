#include "verification/interfaces/python/src/extension/arrays.hpp"

#include <cstdint>

#include "common/base/error.hpp"

namespace zeroproof::python {
namespace {

int code_of(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return code_bfloat;
    case DType::e4m3:
      return code_e4m3fn;
    case DType::e5m2:
      return code_e5m2;
    case DType::e8m0:
      return code_e8m0fnu;
    case DType::u16:
    case DType::u32:
    case DType::u64:
      return code_uint;
    default:
      return code_float;
  }
}

bool no_numpy_type(DType dtype) {
  return dtype == DType::bf16 || dtype == DType::e4m3 || dtype == DType::e5m2 ||
         dtype == DType::e8m0;
}

bool is_of(const ArrayMemory& have, DType want) {
  if (have.lanes != 1 || have.bits != 8 * num_bytes(want)) return false;
  const bool bits = no_numpy_type(want) && have.code == code_uint;
  return have.code == code_of(want) || bits;
}

std::string text_of(const ArrayMemory& dtype) {
  std::string kind = "type " + std::to_string(dtype.code) + " of ";
  if (dtype.code == code_int) kind = "int";
  if (dtype.code == code_uint) kind = "uint";
  if (dtype.code == code_float) kind = "float";
  if (dtype.code == code_bfloat) kind = "bfloat";
  if (dtype.code == code_bool) kind = "bool";
  if (dtype.code == code_complex) kind = "complex";
  return kind + std::to_string(dtype.bits);
}

std::string python_name(DType dtype) {
  switch (dtype) {
    case DType::fp32:
      return "float32";
    case DType::fp16:
      return "float16";
    case DType::fp64:
      return "float64";
    case DType::bf16:
      return "bfloat16 (or uint16 with its bits)";
    case DType::e4m3:
      return "float8_e4m3fn (or uint8 with its bits)";
    case DType::e5m2:
      return "float8_e5m2 (or uint8 with its bits)";
    case DType::e8m0:
      return "float8_e8m0fnu (or uint8 with its bits)";
    case DType::u16:
      return "uint16";
    case DType::u32:
      return "uint32";
    case DType::u64:
      return "uint64";
  }
  return "float32";
}

using py::raise;

}  // namespace

HostArray host_array(const py::Object& object, const std::string& name, DType dtype,
                     bool writable) {
  std::string why;
  const std::optional<ArrayMemory> array = array_memory(object, why);
  if (!array) {
    const std::string type = py::type_name(object);
    if (!why.empty()) {
      raise(PyExc_TypeError, name + " cannot be read as an array (" + why +
                                 "); pass a tensor in host memory, detached from any graph");
    }
    raise(PyExc_TypeError,
          name + " is a " + type +
              " (its elements are read in place); use an array of numpy, PyTorch or "
              "anything else with __dlpack__");
  }
  if (array->device != host_device) {
    raise(PyExc_ValueError,
          name + " is on device type " + std::to_string(array->device) +
              " of DLPack (the reference computes in host memory); move it there first, "
              "as with .cpu()");
  }
  if (!is_of(*array, dtype)) {
    raise(PyExc_TypeError, name + " has elements of " + text_of(*array) +
                               " (nothing is converted implicitly); make it " + python_name(dtype));
  }
  if (!array->is_dense) {
    raise(PyExc_ValueError, name +
                                " is not contiguous (its elements would have to be copied, and the "
                                "result lost); use .copy() or .contiguous()");
  }
  if (writable && !array->writable) {
    raise(PyExc_ValueError,
          name + " is read-only (the result is written into it); use a copy of it");
  }
  HostArray result;
  result.view = {array->data, dtype, array->numel};
  if (reinterpret_cast<std::uintptr_t>(result.view.data) %
          static_cast<std::uintptr_t>(num_bytes(dtype)) !=
      0) {
    raise(PyExc_ValueError,
          name +
              " begins inside of an element's alignment (processors read whole elements); "
              "use a copy of it");
  }
  result.shape = array->shape;
  result.owner = array->owner;
  return result;
}

py::Object numpy_array(const TensorView& view, const std::vector<std::size_t>& shape,
                       const py::Object& owner, bool writable) {
  static const std::byte empty{};
  const bool bits = no_numpy_type(view.dtype) || code_of(view.dtype) == code_uint;
  py::Object dimensions = py::Object::take(PyList_AsTuple(py::to_python(shape).get()));
  const void* data = view.data == nullptr ? &empty : view.data;
  py::Dict fields;
  fields.set("version", 3);
  fields.set("typestr", (bits ? "<u" : "<f") + std::to_string(num_bytes(view.dtype)));
  fields.set("shape", dimensions);
  fields.set("data", py::make_tuple(reinterpret_cast<std::uintptr_t>(data), !writable));
  const py::Object described = py::import("types").attr("SimpleNamespace")();
  described.set_attr("__array_interface__", fields);
  described.set_attr("owner", owner);
  return py::import("numpy").attr("asarray")(described);
}

}  // namespace zeroproof::python
