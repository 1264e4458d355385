#include <exception>
#include <new>

#include "common/base/error.hpp"
#include "verification/interfaces/python/src/extension/binding.hpp"

namespace zeroproof::py {
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

void translate_exception() {
  try {
    throw;
  } catch (const PythonError& error) {
    error.restore();
  } catch (const Error& error) {
    PyErr_SetString(type_of(error.code()), error.what());
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
}

std::vector<PyObject*> arranged(const std::string& function, const Names& names, PyObject* args,
                                PyObject* keywords) {
  const auto num_args = static_cast<std::size_t>(PyTuple_Size(args));
  if (num_args > names.size()) {
    raise(PyExc_TypeError, function + "() takes " + std::to_string(names.size()) +
                               " arguments, got " + std::to_string(num_args));
  }
  std::vector<PyObject*> values(names.size());
  for (std::size_t i = 0; i < num_args; ++i)
    values[i] = PyTuple_GetItem(args, static_cast<Py_ssize_t>(i));
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t position = 0;
  while (keywords != nullptr && PyDict_Next(keywords, &position, &key, &value) == 1) {
    const std::string word = text_of(Object::share(key));
    std::size_t at = 0;
    while (at < names.size() && names[at] != word) ++at;
    if (at == names.size() || values[at] != nullptr)
      raise(PyExc_TypeError, function + "() got an unknown or a second argument " + word);
    values[at] = value;
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (values[i] == nullptr)
      raise(PyExc_TypeError, function + "() misses the argument " + names[i]);
  }
  return values;
}

}  // namespace zeroproof::py
