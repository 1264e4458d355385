#include "verification/interfaces/python/src/extension/array_memory.hpp"

#include <cstdlib>
#include <map>

namespace zeroproof::python {
namespace {

/// Structures of DLPack 1.1 (github.com/dmlc/dlpack).
struct DlTensor {
  void* data;
  std::int32_t device_type, device_id, ndim;
  std::uint8_t code, bits;
  std::uint16_t lanes;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};
struct DlManaged {
  DlTensor tensor;
  void* context;
  void (*deleter)(DlManaged*);
};
struct DlVersioned {
  std::uint32_t major, minor;
  void* context;
  void (*deleter)(DlVersioned*);
  std::uint64_t flags;
  DlTensor tensor;
};
constexpr std::uint64_t flag_read_only = 1;

/// Strides in elements; null: dense.
void measure(ArrayMemory& memory, const std::int64_t* strides) {
  std::int64_t dense = 1;
  for (const std::size_t length : memory.shape) memory.numel *= static_cast<std::int64_t>(length);
  if (strides == nullptr || memory.numel == 0) return;
  for (std::size_t i = memory.shape.size(); i-- > 0;) {
    if (memory.shape[i] != 1 && strides[i] != dense) memory.is_dense = false;
    dense *= static_cast<std::int64_t>(memory.shape[i]);
  }
}

std::shared_ptr<void> owned(const py::Object& object) {
  return std::make_shared<py::Object>(object);
}

ArrayMemory of_tensor(const DlTensor& tensor) {
  ArrayMemory memory;
  memory.data = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  memory.shape.assign(tensor.shape, tensor.shape + tensor.ndim);
  memory.code = tensor.code;
  memory.bits = tensor.bits;
  memory.lanes = tensor.lanes;
  memory.device = tensor.device_type;
  measure(memory, tensor.strides);
  return memory;
}

/// Takes the tensor out of its capsule; its library frees it when the last copy of `owner` is gone.
template <class Managed>
std::optional<ArrayMemory> taken(const py::Object& capsule, const char* name, const char* used) {
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule.get(), name));
  if (managed == nullptr || PyCapsule_SetName(capsule.get(), used) != 0) throw py::PythonError();
  ArrayMemory memory = of_tensor(managed->tensor);
  if constexpr (std::is_same_v<Managed, DlVersioned>)
    memory.writable = (managed->flags & flag_read_only) == 0;
  memory.owner = std::shared_ptr<void>(managed, [](void* held) {
    auto* tensor = static_cast<Managed*>(held);
    const py::GilLock lock;
    if (tensor->deleter != nullptr) tensor->deleter(tensor);
  });
  return memory;
}

std::optional<ArrayMemory> of_dlpack(py::Object object) {
  // PyTorch refuses parameters; without their graph they have the same memory
  if (object.has_attr("requires_grad")) object = object.attr("detach")();
  py::Object capsule;
  try {
    py::Dict keywords;
    keywords.set("max_version", py::make_tuple(1, 1));
    capsule = py::Object::take(
        PyObject_Call(object.attr("__dlpack__").get(), py::make_tuple().get(), keywords.get()));
  } catch (const py::PythonError&) {  // a library of before DLPack 1
    capsule = object.attr("__dlpack__")();
  }
  if (PyCapsule_IsValid(capsule.get(), "dltensor_versioned") == 1)
    return taken<DlVersioned>(capsule, "dltensor_versioned", "used_dltensor_versioned");
  return taken<DlManaged>(capsule, "dltensor", "used_dltensor");
}

/// numpy's description of memory in attributes (`__array_interface__`, version 3).
std::optional<ArrayMemory> of_interface(const py::Object& object) {
  static const std::map<char, int> codes = {
      {'i', code_int}, {'u', code_uint}, {'f', code_float}, {'b', code_bool}, {'c', code_complex}};
  const auto fields = py::cast<py::Dict>(object.attr("__array_interface__"));
  const auto type = py::cast<std::string>(fields.at("typestr"));  // "<f4"
  const auto code = codes.find(type.at(1));
  if (code == codes.end() || type[0] == '>') return std::nullopt;
  const auto place = py::cast<std::tuple<std::uintptr_t, bool>>(fields.at("data"));
  ArrayMemory memory;
  memory.data = reinterpret_cast<void*>(std::get<0>(place));
  memory.writable = !std::get<1>(place);
  memory.shape = py::cast<std::vector<std::size_t>>(fields.at("shape"));
  memory.code = code->second;
  const int bytes = std::atoi(type.c_str() + 2);
  memory.bits = 8 * bytes;
  std::vector<std::int64_t> strides;
  if (fields.contains("strides") && !fields.at("strides").is_none()) {
    strides = py::cast<std::vector<std::int64_t>>(fields.at("strides"));
    for (std::int64_t& stride : strides) stride = stride % bytes == 0 ? stride / bytes : 0;
  }
  measure(memory, strides.empty() ? nullptr : strides.data());
  memory.owner = owned(object);
  return memory;
}

}  // namespace

std::optional<ArrayMemory> array_memory(const py::Object& object, std::string& why) {
  try {
    if (object.has_attr("__array_interface__")) return of_interface(object);
    if (object.has_attr("__dlpack__")) return of_dlpack(object);
    PyObject* buffer = PyMemoryView_FromObject(object.get());
    PyErr_Clear();
    if (buffer == nullptr) return std::nullopt;
    return of_interface(py::import("numpy").attr("asarray")(py::Object::take(buffer)));
  } catch (const py::PythonError& error) {
    why = error.what();
    return std::nullopt;
  }
}

}  // namespace zeroproof::python
