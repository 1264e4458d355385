#pragma once
// The memory of an array of another library.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "verification/interfaces/python/src/extension/convert.hpp"

namespace zeroproof::python {

/// Numbers of DLPack for kinds of elements and for host memory.
constexpr int code_int = 0, code_uint = 1, code_float = 2, code_bfloat = 4, code_complex = 5,
              code_bool = 6, code_e4m3fn = 10, code_e5m2 = 12, code_e8m0fnu = 14;
constexpr int host_device = 1;

struct ArrayMemory {
  void* data = nullptr;
  std::vector<std::size_t> shape;
  std::int64_t numel = 1;
  int code = code_float, bits = 32, lanes = 1;
  int device = host_device;
  bool is_dense =
      true;  ///< row-major without gaps; the stride of a dimension of one element is ignored
  bool writable = true;
  std::shared_ptr<void> owner;  ///< keeps the memory alive
};

/// The array behind an object of numpy, or with __dlpack__ or a buffer; nothing if there is none, and then `why` has the
/// reason of a refusal by its library, or "".
std::optional<ArrayMemory> array_memory(const py::Object& object, std::string& why);

}  // namespace zeroproof::python
