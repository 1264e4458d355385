#pragma once
// Functions and classes of C++ in a module of Python.

#include <array>
#include <deque>
#include <exception>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "verification/interfaces/python/src/extension/convert.hpp"

namespace zeroproof::py {

using Names = std::vector<std::string>;

/// Puts the exception that is being handled into the error state of Python: an Error as the matching
/// type with the same sentence (errors.cpp).
void translate_exception();

/// The objects for the parameters `names` of a call, borrowed. Errors: PythonError (TypeError) for a missing, unknown
/// or repeated one.
std::vector<PyObject*> arranged(const std::string& function, const Names& names, PyObject* args,
                                PyObject* keywords);

/// Errors: PythonError (TypeError) with the function and the parameter.
template <class T>
T argument(const std::string& function, const std::string& name, PyObject* value) {
  std::optional<T> result = from_python<T>(Object::share(value));
  if (!result) {
    raise(PyExc_TypeError, function + "() was called with " + name + " of type " +
                               type_name(Object::share(value)) +
                               " (its type or range is another one)");
  }
  return *std::move(result);
}

/// What Python calls for one function of C++; Self is the class whose method it is, or void.
template <auto function, class Self = void>
struct Bound;

/// The value behind an instance of a bound class.
template <class T>
struct Instance {
  PyObject base;
  T* value;
};

template <class Result, class... Args, Result (*function)(Args...), class Self>
struct Bound<function, Self> {
  static constexpr bool is_method = !std::is_void_v<Self>;
  static constexpr std::size_t num_own = is_method ? 1 : 0;
  static inline std::string name;
  static inline std::string doc;
  static inline Names names;

  static PyObject* call(PyObject* self, PyObject* args, PyObject* keywords) {
    try {
      const std::vector<PyObject*> values = arranged(name, names, args, keywords);
      return call_with(self, values, std::make_index_sequence<sizeof...(Args) - num_own>());
    } catch (...) {
      translate_exception();
      return nullptr;
    }
  }

  /// The entry in a table of methods; it is valid for ever.
  static PyMethodDef entry(const std::string& word, Names parameters) {
    name = word;
    names = std::move(parameters);
    doc = name + (is_method ? "($self" : "($module");
    for (const std::string& one : names) doc += ", " + one;
    doc += ")\n--\n\n";
    const auto address = reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&call));
    return {name.c_str(), address, METH_VARARGS | METH_KEYWORDS, doc.c_str()};
  }

 private:
  template <std::size_t index>
  using Arg = std::decay_t<std::tuple_element_t<index + num_own, std::tuple<Args...>>>;

  template <std::size_t... index>
  static PyObject* call_with(PyObject* self, const std::vector<PyObject*>& values,
                             std::index_sequence<index...>) {
    std::tuple<Arg<index>...> read{argument<Arg<index>>(name, names[index], values[index])...};
    const auto run = [&]() -> Result {
      if constexpr (is_method) {
        return function(*reinterpret_cast<Instance<Self>*>(self)->value, std::get<index>(read)...);
      } else {
        return function(std::get<index>(read)...);
      }
    };
    if constexpr (std::is_void_v<Result>) {
      run();
      return none().release();
    } else {
      return to_python(run()).release();
    }
  }
};

class Module {
 public:
  explicit Module(Object module) : module_(std::move(module)) {}

  template <auto function>
  void def(const std::string& name, Names names = {}) {
    static PyMethodDef entry;
    entry = Bound<function>::entry(name, std::move(names));
    module_.set_attr(name.c_str(), Object::take(PyCFunction_NewEx(&entry, module_.get(), nullptr)));
  }

  template <class T>
  void set(const char* name, const T& value) {
    module_.set_attr(name, to_python(value));
  }

 private:
  Object module_;
};

/// A class of Python whose instances own a T. Methods are functions with a T& as their first parameter.
template <class T>
class Class {
 public:
  explicit Class(std::string name) { name_ = std::move(name); }

  template <auto function>
  Class& def(const std::string& name, Names names = {}) {
    methods_.push_back(Bound<function, T>::entry(name, std::move(names)));
    return *this;
  }

  /// maker: returns a unique_ptr<T>; without one, Python cannot make instances.
  template <auto maker>
  Class& init(Names names) {
    maker_ = &made_by<maker>;
    names_ = std::move(names);
    return *this;
  }

  void add_to(Module& module) {
    full_name_ = "zproof._zproof." + name_;
    methods_.push_back({nullptr, nullptr, 0, nullptr});
    PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(&destroy)},
                           {Py_tp_methods, methods_.data()},
                           {Py_tp_new, reinterpret_cast<void*>(&make)},
                           {0, nullptr}};
    PyType_Spec spec = {full_name_.c_str(), sizeof(Instance<T>), 0, Py_TPFLAGS_DEFAULT, slots};
    type_ = Object::take(PyType_FromSpec(&spec)).release();
    module.set(name_.c_str(), Object::share(type_));
  }

  static Object wrap(std::unique_ptr<T> value) {
    auto* type = reinterpret_cast<PyTypeObject*>(type_);
    const auto allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
    Object object = Object::take(allocate(type, 0));
    reinterpret_cast<Instance<T>*>(object.get())->value = value.release();
    return object;
  }

 private:
  using Maker = Object (*)(const std::vector<PyObject*>&);

  template <auto maker>
  static Object made_by(const std::vector<PyObject*>& values) {
    return made(maker, values);
  }
  template <class... Args>
  static Object made(std::unique_ptr<T> (*maker)(Args...), const std::vector<PyObject*>& values) {
    return made_with(maker, values, std::index_sequence_for<Args...>());
  }
  template <class... Args, std::size_t... index>
  static Object made_with(std::unique_ptr<T> (*maker)(Args...),
                          const std::vector<PyObject*>& values, std::index_sequence<index...>) {
    return wrap(maker(argument<std::decay_t<Args>>(name_, names_[index], values[index])...));
  }

  static PyObject* make(PyTypeObject*, PyObject* args, PyObject* keywords) {
    try {
      if (maker_ == nullptr) raise(PyExc_TypeError, name_ + " has no constructor");
      return maker_(arranged(name_, names_, args, keywords)).release();
    } catch (...) {
      translate_exception();
      return nullptr;
    }
  }

  static void destroy(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    delete reinterpret_cast<Instance<T>*>(self)->value;
    reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
  }

  // Of the one class of this T; Python keeps pointers to them.
  static inline std::string name_, full_name_;
  static inline Names names_;
  static inline std::vector<PyMethodDef> methods_;
  static inline Maker maker_ = nullptr;
  static inline PyObject* type_ = nullptr;
};

}  // namespace zeroproof::py
