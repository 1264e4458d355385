#include "verification/interfaces/python/src/extension/tensor_files.hpp"

#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "common/base/error.hpp"
#include "common/io/safetensors/safetensors.hpp"
#include "verification/interfaces/python/src/extension/bytes.hpp"

namespace zeroproof::python {
namespace {

namespace nb = nanobind;

using Shape = std::vector<std::int64_t>;

void write_tensors(const std::string& path,
                   const std::vector<std::tuple<std::string, std::string, Shape, Bytes>>& tensors,
                   const SafeMetadata& metadata) {
  std::vector<SafeTensorSpec> specs;
  for (const auto& [name, dtype, shape, bytes] : tensors) {
    const std::optional<SafeDType> known = parse_safe_dtype(dtype);
    ZP_CHECK(known.has_value(), ErrorCode::invalid_argument,
             "tensor " + shown_name(name) + " has elements of type '" + dtype + "'",
             "safetensors has no name for them", "convert it");
    specs.push_back({name, *known, shape});
  }
  SafetensorsWriter writer(path, specs, metadata);
  for (const auto& [name, dtype, shape, bytes] : tensors) writer.write(name, span_of(bytes));
  writer.finish();
}

/// Memory that Python owns from now on.
nb::object bytes_of(const SafetensorsReader& reader, const SafeTensor& tensor) {
  const auto size = static_cast<std::size_t>(tensor.num_bytes());
  auto memory = std::make_unique<std::byte[]>(size);
  reader.read(tensor, 0, {memory.get(), size});
  std::byte* data = memory.release();
  const nb::capsule owner(data,
                          [](void* held) noexcept { delete[] static_cast<std::byte*>(held); });
  return nb::cast(nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>>(data, {size}, owner));
}

nb::tuple read_tensors(const std::string& path) {
  const SafetensorsReader reader = SafetensorsReader::open(path);
  nb::list tensors;
  for (const std::uint32_t index : reader.header().by_name) {
    const SafeTensor& tensor = reader.header().tensors[index];
    tensors.append(nb::make_tuple(tensor.name, std::string(name(tensor.dtype)), tensor.shape,
                                  bytes_of(reader, tensor)));
  }
  return nb::make_tuple(tensors, reader.metadata());
}

}  // namespace

void bind_tensor_files(nb::module_& module) {
  using namespace nb::literals;
  module.def("write_tensors", &write_tensors, "path"_a, "tensors"_a, "metadata"_a);
  module.def("read_tensors", &read_tensors, "path"_a);
}

}  // namespace zeroproof::python
