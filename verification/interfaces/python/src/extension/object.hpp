#pragma once
// Objects of Python, over the stable ABI of CPython 3.10: one build of the extension serves every later version.

#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030A0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <exception>
#include <string>
#include <utility>

namespace zeroproof::py {

/// A reference to an object, or to nothing. Copying and destroying one needs the interpreter's lock.
class Object {
 public:
  Object() = default;
  Object(const Object& other) : pointer_(other.pointer_) { Py_XINCREF(pointer_); }
  Object(Object&& other) noexcept : pointer_(std::exchange(other.pointer_, nullptr)) {}
  Object& operator=(Object other) noexcept {
    std::swap(pointer_, other.pointer_);
    return *this;
  }
  ~Object() { Py_XDECREF(pointer_); }

  /// Takes over a new reference. Errors: PythonError if it is null.
  static Object take(PyObject* reference);
  /// Adds a reference to a borrowed one.
  static Object share(PyObject* borrowed) {
    Py_XINCREF(borrowed);
    return Object(borrowed);
  }

  PyObject* get() const { return pointer_; }
  PyObject* release() { return std::exchange(pointer_, nullptr); }
  bool is_none() const { return pointer_ == Py_None; }

  Object attr(const char* name) const { return take(PyObject_GetAttrString(pointer_, name)); }
  bool has_attr(const char* name) const { return PyObject_HasAttrString(pointer_, name) == 1; }
  void set_attr(const char* name, const Object& value) const;

  /// Calls the object; arguments are converted (convert.hpp).
  template <class... Args>
  Object operator()(const Args&... args) const;

 private:
  explicit Object(PyObject* reference) : pointer_(reference) {}

  PyObject* pointer_ = nullptr;
};

inline Object none() { return Object::share(Py_None); }

/// An exception of Python, taken from the interpreter's error state.
class PythonError final : public std::exception {
 public:
  PythonError();
  PythonError(const PythonError&) = default;
  PythonError& operator=(const PythonError&) = default;
  ~PythonError() override;

  const char* what() const noexcept override { return text_.c_str(); }
  /// Puts the exception into the error state again.
  void restore() const;

 private:
  Object type_, value_, traceback_;
  std::string text_;
};

/// Throws a Python exception of this type.
[[noreturn]] void raise(PyObject* type, const std::string& text);

/// str(object); an object without one gives "".
std::string text_of(const Object& object);
std::string type_name(const Object& object);

Object import(const char* module);

class GilLock {
 public:
  GilLock() : state_(PyGILState_Ensure()) {}
  ~GilLock() { PyGILState_Release(state_); }
  GilLock(const GilLock&) = delete;
  GilLock& operator=(const GilLock&) = delete;

 private:
  PyGILState_STATE state_;
};

/// Other threads of Python run while one lives.
class GilRelease {
 public:
  GilRelease() : state_(PyEval_SaveThread()) {}
  ~GilRelease() { PyEval_RestoreThread(state_); }
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  PyThreadState* state_;
};

}  // namespace zeroproof::py
