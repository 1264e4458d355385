#include "verification/interfaces/python/src/extension/arrays.hpp"

#include <cstdint>

#include "common/base/error.hpp"

namespace zeroproof::python {
namespace {

using Code = nb::dlpack::dtype_code;

/// Numbers of DLPack; nanobind defines the first few.
constexpr std::uint8_t code_e4m3fn = 10;
constexpr std::uint8_t code_e5m2 = 12;
constexpr std::uint8_t code_e8m0fnu = 14;

std::uint8_t code_of(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return static_cast<std::uint8_t>(Code::Bfloat);
    case DType::e4m3:
      return code_e4m3fn;
    case DType::e5m2:
      return code_e5m2;
    case DType::e8m0:
      return code_e8m0fnu;
    case DType::u16:
    case DType::u32:
    case DType::u64:
      return static_cast<std::uint8_t>(Code::UInt);
    default:
      return static_cast<std::uint8_t>(Code::Float);
  }
}

bool no_numpy_type(DType dtype) {
  return dtype == DType::bf16 || dtype == DType::e4m3 || dtype == DType::e5m2 ||
         dtype == DType::e8m0;
}

bool is_of(const nb::dlpack::dtype& have, DType want) {
  if (have.lanes != 1 || have.bits != 8 * num_bytes(want)) return false;
  const bool bits = no_numpy_type(want) && have.code == static_cast<std::uint8_t>(Code::UInt);
  return have.code == code_of(want) || bits;
}

std::string text_of(const nb::dlpack::dtype& dtype) {
  std::string kind = "type " + std::to_string(dtype.code) + " of ";
  if (dtype.code == static_cast<std::uint8_t>(Code::Int)) kind = "int";
  if (dtype.code == static_cast<std::uint8_t>(Code::UInt)) kind = "uint";
  if (dtype.code == static_cast<std::uint8_t>(Code::Float)) kind = "float";
  if (dtype.code == static_cast<std::uint8_t>(Code::Bfloat)) kind = "bfloat";
  if (dtype.code == static_cast<std::uint8_t>(Code::Bool)) kind = "bool";
  if (dtype.code == static_cast<std::uint8_t>(Code::Complex)) kind = "complex";
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

[[noreturn]] void refuse(PyObject* type, const std::string& text) {
  PyErr_SetString(type, text.c_str());
  throw nb::python_error();
}

/// The array, or null; the reason of a refusal by a library's own __dlpack__ is put into `why`.
nb::ndarray<nb::ro> try_array(nb::handle object, std::string& why) {
  nb::ndarray<nb::ro> array;
  try {
    if (nb::try_cast(object, array, false)) return array;
  } catch (const nb::python_error& error) {
    why = error.what();
  }
  PyErr_Clear();
  if (!nb::hasattr(object, "__dlpack__")) return {};
  try {  // nanobind does not report why an exporter refused
    nb::object ignored = object.attr("__dlpack__")();
  } catch (const nb::python_error& error) {
    why = nb::cast<std::string>(nb::str(error.value()));
  }
  PyErr_Clear();
  return {};
}

bool is_writable(nb::handle object) {
  nb::ndarray<> array;
  const bool writable = nb::try_cast(object, array, false);
  PyErr_Clear();
  return writable;
}

/// Row-major without gaps; the stride of a dimension of one element is ignored.
bool is_dense(const nb::ndarray<nb::ro>& array) {
  if (array.size() == 0 || array.stride_ptr() == nullptr) return true;
  std::int64_t stride = 1;
  for (std::size_t i = array.ndim(); i-- > 0;) {
    if (array.shape(i) != 1 && array.stride(i) != stride) return false;
    stride *= static_cast<std::int64_t>(array.shape(i));
  }
  return true;
}

}  // namespace

HostArray host_array(nb::handle object, const std::string& name, DType dtype, bool writable) {
  std::string why;
  const nb::ndarray<nb::ro> array = try_array(object, why);
  if (!array.is_valid()) {
    const std::string type =
        nb::cast<std::string>(nb::str(nb::handle(object.type()).attr("__name__")));
    if (!why.empty()) {
      refuse(PyExc_TypeError, name + " cannot be read as an array (" + why +
                                  "); pass a tensor in host memory, detached from any graph");
    }
    refuse(PyExc_TypeError,
           name + " is a " + type +
               " (its elements are read in place); use an array of numpy, PyTorch or "
               "anything else with __dlpack__");
  }
  if (array.device_type() != nb::device::cpu::value) {
    refuse(PyExc_ValueError,
           name + " is on device type " + std::to_string(array.device_type()) +
               " of DLPack (the reference computes in host memory); move it there first, "
               "as with .cpu()");
  }
  if (!is_of(array.dtype(), dtype)) {
    refuse(PyExc_TypeError, name + " has elements of " + text_of(array.dtype()) +
                                " (nothing is converted implicitly); make it " +
                                python_name(dtype));
  }
  if (!is_dense(array)) {
    refuse(PyExc_ValueError,
           name +
               " is not contiguous (its elements would have to be copied, and the "
               "result lost); use .copy() or .contiguous()");
  }
  if (writable && !is_writable(object)) {
    refuse(PyExc_ValueError,
           name + " is read-only (the result is written into it); use a copy of it");
  }
  HostArray result;
  result.view = {const_cast<void*>(static_cast<const void*>(array.data())), dtype,
                 static_cast<std::int64_t>(array.size())};
  if (reinterpret_cast<std::uintptr_t>(result.view.data) %
          static_cast<std::uintptr_t>(num_bytes(dtype)) !=
      0) {
    refuse(PyExc_ValueError,
           name +
               " begins inside of an element's alignment (processors read whole elements); "
               "use a copy of it");
  }
  for (std::size_t i = 0; i < array.ndim(); ++i) result.shape.push_back(array.shape(i));
  result.holder = array;
  return result;
}

nb::object numpy_array(const TensorView& view, const std::vector<std::size_t>& shape,
                       nb::handle owner, bool writable) {
  const auto bits = static_cast<std::uint8_t>(8 * num_bytes(view.dtype));
  const std::uint8_t code =
      no_numpy_type(view.dtype) ? static_cast<std::uint8_t>(Code::UInt) : code_of(view.dtype);
  const nb::dlpack::dtype dtype = {code, bits, 1};
  if (!writable) {
    return nb::cast(nb::ndarray<nb::numpy, nb::ro>(view.data, shape.size(), shape.data(), owner,
                                                   nullptr, dtype, nb::device::cpu::value));
  }
  return nb::cast(nb::ndarray<nb::numpy>(view.data, shape.size(), shape.data(), owner, nullptr,
                                         dtype, nb::device::cpu::value));
}

}  // namespace zeroproof::python
