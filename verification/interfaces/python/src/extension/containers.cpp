#include "verification/interfaces/python/src/extension/containers.hpp"

namespace zeroproof::py {

bool Dict::contains(const std::string& key) const {
  const Object word = take(PyUnicode_FromString(key.c_str()));
  return PyDict_Contains(get(), word.get()) == 1;
}

Object Dict::at(const std::string& key) const {
  const Object word = take(PyUnicode_FromString(key.c_str()));
  return take(PyObject_GetItem(get(), word.get()));
}

std::vector<std::pair<Object, Object>> Dict::items() const {
  std::vector<std::pair<Object, Object>> all;
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(get(), &position, &key, &value) == 1)
    all.emplace_back(share(key), share(value));
  return all;
}

Object List::at(std::size_t index) const {
  PyObject* item = PyList_GetItem(get(), static_cast<Py_ssize_t>(index));
  if (item == nullptr) throw PythonError();
  return share(item);
}

std::vector<Object> List::items() const {
  std::vector<Object> all;
  for (std::size_t i = 0; i < size(); ++i) all.push_back(at(i));
  return all;
}

}  // namespace zeroproof::py
