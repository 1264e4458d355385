#include "verification/interfaces/python/src/extension/tensor_files.hpp"

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "common/base/error.hpp"
#include "common/io/safetensors/safetensors.hpp"
#include "verification/interfaces/python/src/extension/arrays.hpp"
#include "verification/interfaces/python/src/extension/bytes.hpp"

namespace zeroproof::python {
namespace {

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
  for (const auto& [name, dtype, shape, bytes] : tensors) writer.write(name, bytes.span());
  writer.finish();
}

/// Memory that Python owns from now on.
py::Object bytes_of(const SafetensorsReader& reader, const SafeTensor& tensor) {
  auto memory =
      std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(tensor.num_bytes()));
  reader.read(tensor, 0, *memory);
  const TensorView view = {memory->data(), DType::e4m3, static_cast<std::int64_t>(memory->size())};
  const std::vector<std::size_t> shape = {memory->size()};
  return numpy_array(view, shape, owner_of(std::move(memory)));
}

py::Object read_tensors(const std::string& path) {
  const SafetensorsReader reader = SafetensorsReader::open(path);
  py::List tensors;
  for (const std::uint32_t index : reader.header().by_name) {
    const SafeTensor& tensor = reader.header().tensors[index];
    tensors.append(py::make_tuple(tensor.name, std::string(name(tensor.dtype)), tensor.shape,
                                  bytes_of(reader, tensor)));
  }
  return py::make_tuple(tensors, reader.metadata());
}

}  // namespace

void bind_tensor_files(py::Module& module) {
  module.def<&write_tensors>("write_tensors", {"path", "tensors", "metadata"});
  module.def<&read_tensors>("read_tensors", {"path"});
}

}  // namespace zeroproof::python
