#pragma once
// Small recordings of gradients, valid ones and ones with a single flaw.

#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/io/safetensors/safetensors.hpp"

namespace zeroproof::tests {

struct RecordedTensor {
  SafeDType dtype = SafeDType::f32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;
};

struct Recording {
  std::map<std::string, RecordedTensor> tensors;
  SafeMetadata metadata;
};

template <class T>
RecordedTensor recorded_tensor(SafeDType dtype, std::vector<std::int64_t> shape,
                               const std::vector<T>& values) {
  const auto bytes = std::as_bytes(Span<const T>(values));
  return {dtype, std::move(shape), {bytes.begin(), bytes.end()}};
}

inline RecordedTensor zero_tensor(SafeDType dtype, std::vector<std::int64_t> shape) {
  const auto count = static_cast<std::size_t>(*safetensors_numel(shape) * num_bytes(dtype));
  return {dtype, std::move(shape), std::vector<std::byte>(count)};
}

/// Two steps of three micro-batches of parameters "w" [2, 3] and "a.b" [5]; value i of tensor n is
/// (i + n) / 64.
inline Recording small_recording() {
  Recording recording;
  float n = 1;
  for (int step = 1; step <= 2; ++step) {
    for (int j = 0; j < 3; ++j) {
      for (const auto& [name, shape] :
           {std::pair<std::string, std::vector<std::int64_t>>{"w", {2, 3}}, {"a.b", {5}}}) {
        std::vector<float> values(shape.size() == 1 ? 5 : 6);
        for (std::size_t i = 0; i < values.size(); ++i)
          values[i] = (static_cast<float>(i) + n) / 64.0F;
        n += 1;
        recording.tensors["grad." + std::to_string(step) + "." + std::to_string(j) + "." + name] =
            recorded_tensor(SafeDType::f32, shape, values);
      }
    }
  }
  return recording;
}

inline void save(const Recording& recording, const std::string& path) {
  std::vector<SafeTensorSpec> specs;
  for (const auto& [name, tensor] : recording.tensors)
    specs.push_back({name, tensor.dtype, tensor.shape});
  SafetensorsWriter writer(path, specs, recording.metadata);
  for (const auto& [name, tensor] : recording.tensors) writer.write(name, tensor.bytes);
  writer.finish();
}

}  // namespace zeroproof::tests
