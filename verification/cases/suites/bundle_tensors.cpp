// The tensors of a bundle.

#include "common/io/safetensors/safetensors_writer.hpp"
#include "verification/cases/suites/bundle.hpp"
#include "verification/cli/program/contract_version.hpp"

namespace zeroproof::verification {

void save_tensors(const std::string& path, const Result& result) {
  std::vector<SafeTensorSpec> specs;
  for (const SavedTensor& tensor : result.tensors) {
    const auto numel = static_cast<std::int64_t>(tensor.bytes.size()) / num_bytes(tensor.dtype);
    specs.push_back({tensor.name, safe_dtype(tensor.dtype), {numel}});
  }
  const SafeMetadata metadata = {{"id", result.id},
                                 {"contract", std::to_string(contract_version)},
                                 {"shape", result.divergence ? result.divergence->call : ""},
                                 {"failure", result.reason}};
  SafetensorsWriter writer(path, specs, metadata);
  for (const SavedTensor& tensor : result.tensors) writer.write(tensor.name, tensor.bytes);
  writer.finish();
}

}  // namespace zeroproof::verification
