#include "verification/interfaces/python/src/extension/errors.hpp"

#include <nanobind/nanobind.h>

#include <exception>

#include "common/base/error.hpp"

namespace zeroproof::python {
namespace {

PyObject* type_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
    case ErrorCode::config:
      return PyExc_ValueError;
    case ErrorCode::io:
    case ErrorCode::damaged:
      return PyExc_OSError;
    case ErrorCode::timeout:
      return PyExc_TimeoutError;
    case ErrorCode::nonfinite:
      return PyExc_FloatingPointError;
    default:
      return PyExc_RuntimeError;
  }
}

}  // namespace

void translate_errors() {
  nanobind::register_exception_translator(
      [](const std::exception_ptr& thrown, void*) {
        try {
          std::rethrow_exception(thrown);
        } catch (const Error& error) {
          PyErr_SetString(type_of(error.code()), error.what());
        }
      },
      nullptr);
}

}  // namespace zeroproof::python
