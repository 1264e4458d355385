#pragma once
// Safetensors files, written from numbers and read back as numbers.

#include <doctest.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "common/io/safetensors/safetensors.hpp"

namespace zeroproof::tests {

struct NamedTensor {
  SafeTensorSpec spec;
  std::vector<std::byte> bytes;
};

template <class T>
NamedTensor tensor(const std::string& name, SafeDType dtype, const std::vector<std::int64_t>& shape,
                   const std::vector<T>& values) {
  NamedTensor result{{name, dtype, shape}, std::vector<std::byte>(values.size() * sizeof(T))};
  if (!values.empty()) std::memcpy(result.bytes.data(), values.data(), result.bytes.size());
  return result;
}

inline NamedTensor floats(const std::string& name, const std::vector<float>& values) {
  return tensor(name, SafeDType::f32, {static_cast<std::int64_t>(values.size())}, values);
}

inline void write_tensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                          const SafeMetadata& metadata = {}) {
  std::vector<SafeTensorSpec> specs;
  for (const NamedTensor& each : tensors) specs.push_back(each.spec);
  SafetensorsWriter writer(path, specs, metadata);
  for (const NamedTensor& each : tensors) writer.write(each.spec.name, each.bytes);
  writer.finish();
}

/// Every tensor of a file.
inline std::vector<NamedTensor> read_tensors(const std::string& path) {
  const auto reader = SafetensorsReader::open(path);
  std::vector<NamedTensor> tensors;
  for (const SafeTensor& each : reader.header().tensors) {
    NamedTensor one{each, std::vector<std::byte>(each.num_bytes())};
    reader.read(each, 0, one.bytes);
    tensors.push_back(std::move(one));
  }
  return tensors;
}

/// The elements of one tensor of a file.
template <class T>
std::vector<T> values_of(const std::string& path, const std::string& name) {
  const auto reader = SafetensorsReader::open(path);
  const SafeTensor* found = reader.find(name);
  REQUIRE_MESSAGE(found != nullptr, name);
  std::vector<T> values(static_cast<std::size_t>(found->num_bytes()) / sizeof(T));
  reader.read(*found, 0, std::as_writable_bytes(Span<T>(values)));
  return values;
}

}  // namespace zeroproof::tests
