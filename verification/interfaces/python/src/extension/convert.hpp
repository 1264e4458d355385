#pragma once
// Values of C++ as objects of Python and back. Nothing is rounded: a float is no integer, True is no number.

#include <concepts>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "verification/interfaces/python/src/extension/containers.hpp"

namespace zeroproof::py {

template <class T>
struct Converter;

/// Errors: PythonError, as for text that is not UTF-8.
template <class T>
Object to_python(const T& value) {
  if constexpr (std::derived_from<T, Object>) {
    return value;
  } else if constexpr (std::same_as<T, bool>) {
    return Object::share(value ? Py_True : Py_False);
  } else if constexpr (std::signed_integral<T>) {
    return Object::take(PyLong_FromLongLong(value));
  } else if constexpr (std::unsigned_integral<T>) {
    return Object::take(PyLong_FromUnsignedLongLong(value));
  } else if constexpr (std::floating_point<T>) {
    return Object::take(PyFloat_FromDouble(static_cast<double>(value)));
  } else if constexpr (std::convertible_to<T, std::string_view>) {
    const std::string_view text = value;
    return Object::take(
        PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
  } else {
    return Converter<T>::to(value);
  }
}

/// The value behind an object; nothing if it is of another kind or out of range. Leaves no error state.
template <class T>
std::optional<T> from_python(const Object& object) {
  if constexpr (std::same_as<T, Object>) {
    return object;
  } else if constexpr (std::same_as<T, bool>) {
    if (PyBool_Check(object.get())) return object.get() == Py_True;
    return std::nullopt;
  } else if constexpr (std::floating_point<T>) {
    const double value = PyFloat_AsDouble(object.get());
    if (PyErr_Occurred() == nullptr) return static_cast<T>(value);
    PyErr_Clear();
    return std::nullopt;
  } else if constexpr (std::integral<T>) {
    PyObject* index = PyNumber_Index(object.get());
    std::optional<T> result;
    if (index != nullptr) {
      using Wide = std::conditional_t<std::is_signed_v<T>, long long, unsigned long long>;
      Wide value = 0;
      if constexpr (std::is_signed_v<T>) {
        value = PyLong_AsLongLong(index);
      } else {
        value = PyLong_AsUnsignedLongLong(index);
      }
      if (PyErr_Occurred() == nullptr && std::in_range<T>(value)) result = static_cast<T>(value);
      Py_DECREF(index);
    }
    PyErr_Clear();
    return result;
  } else {
    return Converter<T>::from(object);
  }
}

/// Errors: PythonError (TypeError) for an object of another kind.
template <class T>
T cast(const Object& object) {
  std::optional<T> value = from_python<T>(object);
  if (!value)
    raise(PyExc_TypeError, "a value is a " + type_name(object) + " (it has another type here)");
  return *std::move(value);
}

template <class... Values>
Object make_tuple(const Values&... values) {
  Object tuple = Object::take(PyTuple_New(sizeof...(Values)));
  Py_ssize_t index = 0;
  (PyTuple_SetItem(tuple.get(), index++, to_python(values).release()), ...);
  return tuple;
}

template <class... Args>
Object Object::operator()(const Args&... args) const {
  return take(PyObject_CallObject(pointer_, make_tuple(args...).get()));
}

template <class T>
void Dict::set(const std::string& key, const T& value) {
  const Object word = to_python(key);
  if (PyObject_SetItem(get(), word.get(), to_python(value).get()) != 0) throw PythonError();
}

template <class T>
void List::append(const T& value) {
  if (PyList_Append(get(), to_python(value).get()) != 0) throw PythonError();
}

template <>
struct Converter<std::string> {
  static std::optional<std::string> from(const Object& object) {
    Py_ssize_t size = 0;
    const char* text =
        PyUnicode_Check(object.get()) ? PyUnicode_AsUTF8AndSize(object.get(), &size) : nullptr;
    PyErr_Clear();
    if (text == nullptr) return std::nullopt;
    return std::string(text, static_cast<std::size_t>(size));
  }
};

template <>
struct Converter<Dict> {
  static std::optional<Dict> from(const Object& object) {
    if (PyDict_Check(object.get())) return Dict(object);
    return std::nullopt;
  }
};

template <>
struct Converter<List> {
  static std::optional<List> from(const Object& object) {
    if (PyList_Check(object.get())) return List(object);
    return std::nullopt;
  }
};

/// None is no value.
template <class T>
struct Converter<std::optional<T>> {
  static std::optional<std::optional<T>> from(const Object& object) {
    if (object.is_none()) return std::optional<T>();
    std::optional<T> value = from_python<T>(object);
    if (!value) return std::nullopt;
    return value;
  }
};

/// A list; any sequence that is no text becomes a vector.
template <class T>
struct Converter<std::vector<T>> {
  static Object to(const std::vector<T>& values) {
    List list;
    for (const T& value : values) list.append(value);
    return list;
  }
  static std::optional<std::vector<T>> from(const Object& object) {
    if (!PySequence_Check(object.get()) || PyUnicode_Check(object.get()) ||
        PyBytes_Check(object.get()))
      return std::nullopt;
    const Py_ssize_t size = PySequence_Size(object.get());
    std::vector<T> values;
    for (Py_ssize_t i = 0; i < size; ++i) {
      std::optional<T> value = from_python<T>(Object::take(PySequence_GetItem(object.get(), i)));
      if (!value) return std::nullopt;
      values.push_back(*std::move(value));
    }
    return values;
  }
};

template <class... Values>
struct Converter<std::tuple<Values...>> {
  static std::optional<std::tuple<Values...>> from(const Object& object) {
    if (!PyTuple_Check(object.get()) || PyTuple_Size(object.get()) != sizeof...(Values))
      return std::nullopt;
    return read(object, std::index_sequence_for<Values...>());
  }

 private:
  template <std::size_t... index>
  static std::optional<std::tuple<Values...>> read(const Object& object,
                                                   std::index_sequence<index...>) {
    std::tuple<std::optional<Values>...> all{
        from_python<Values>(Object::share(PyTuple_GetItem(object.get(), index)))...};
    if (!(std::get<index>(all).has_value() && ...)) return std::nullopt;
    return std::tuple<Values...>(*std::get<index>(std::move(all))...);
  }
};

template <class First, class Second>
struct Converter<std::pair<First, Second>> {
  static std::optional<std::pair<First, Second>> from(const Object& object) {
    auto both = from_python<std::tuple<First, Second>>(object);
    if (!both) return std::nullopt;
    return std::pair<First, Second>(std::get<0>(*std::move(both)), std::get<1>(*std::move(both)));
  }
};

template <class Key, class Value, class Less>
struct Converter<std::map<Key, Value, Less>> {
  using Map = std::map<Key, Value, Less>;
  static Object to(const Map& map) {
    Dict dict;
    for (const auto& [key, value] : map) dict.set(key, value);
    return dict;
  }
  static std::optional<Map> from(const Object& object) {
    if (!PyDict_Check(object.get())) return std::nullopt;
    Map map;
    for (const auto& [key, value] : Dict(object).items()) {
      std::optional<Key> name = from_python<Key>(key);
      std::optional<Value> what = from_python<Value>(value);
      if (!name || !what) return std::nullopt;
      map.emplace(*std::move(name), *std::move(what));
    }
    return map;
  }
};

}  // namespace zeroproof::py
