#include "verification/interfaces/python/src/extension/object.hpp"

namespace zeroproof::py {

Object Object::take(PyObject* reference) {
  if (reference == nullptr) throw PythonError();
  return Object(reference);
}

void Object::set_attr(const char* name, const Object& value) const {
  if (PyObject_SetAttrString(pointer_, name, value.get()) != 0) throw PythonError();
}

PythonError::PythonError() {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (type != nullptr) type_ = Object::take(type);
  if (value != nullptr) value_ = Object::take(value);
  if (traceback != nullptr) traceback_ = Object::take(traceback);
  text_ = value_.get() == nullptr ? "an exception of Python" : text_of(value_);
}

PythonError::~PythonError() {
  const GilLock lock;
  type_ = value_ = traceback_ = Object();
}

void PythonError::restore() const {
  PyErr_Restore(Object(type_).release(), Object(value_).release(), Object(traceback_).release());
}

void raise(PyObject* type, const std::string& text) {
  PyErr_SetString(type, text.c_str());
  throw PythonError();
}

std::string text_of(const Object& object) {
  PyObject* text = PyObject_Str(object.get());
  Py_ssize_t size = 0;
  const char* bytes = text == nullptr ? nullptr : PyUnicode_AsUTF8AndSize(text, &size);
  std::string result(bytes == nullptr ? "" : bytes,
                     bytes == nullptr ? 0 : static_cast<std::size_t>(size));
  Py_XDECREF(text);
  PyErr_Clear();
  return result;
}

std::string type_name(const Object& object) {
  return text_of(
      Object::share(reinterpret_cast<PyObject*>(Py_TYPE(object.get()))).attr("__name__"));
}

Object import(const char* module) { return Object::take(PyImport_ImportModule(module)); }

}  // namespace zeroproof::py
