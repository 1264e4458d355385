#pragma once
// Dicts and lists of Python.

#include <utility>
#include <vector>

#include "verification/interfaces/python/src/extension/object.hpp"

namespace zeroproof::py {

class Dict : public Object {
 public:
  Dict() : Object(take(PyDict_New())) {}
  /// `object` is a dict.
  explicit Dict(Object object) : Object(std::move(object)) {}

  bool contains(const std::string& key) const;
  /// Errors: PythonError (KeyError).
  Object at(const std::string& key) const;
  /// The value is converted (convert.hpp).
  template <class T>
  void set(const std::string& key, const T& value);
  std::vector<std::pair<Object, Object>> items() const;
};

class List : public Object {
 public:
  List() : Object(take(PyList_New(0))) {}
  /// `object` is a list.
  explicit List(Object object) : Object(std::move(object)) {}

  std::size_t size() const { return static_cast<std::size_t>(PyList_Size(get())); }
  /// Errors: PythonError (IndexError).
  Object at(std::size_t index) const;
  /// The value is converted (convert.hpp).
  template <class T>
  void append(const T& value);
  std::vector<Object> items() const;
};

}  // namespace zeroproof::py
