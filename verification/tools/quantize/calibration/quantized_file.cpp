#include "verification/tools/quantize/calibration/quantized_file.hpp"

#include <algorithm>

#include "common/base/digest.hpp"
#include "common/io/json.hpp"
#include "common/io/safetensors/safetensors_reader.hpp"
#include "common/io/safetensors/safetensors_writer.hpp"
#include "common/step/policy.hpp"
#include "cuda/host/operations.hpp"
#include "verification/cli/program/contract_version.hpp"
#include "verification/tools/quantize/quantized_format.hpp"

namespace zeroproof::verification {
namespace {

SafeDType code_dtype(QuantFormat format) {
  switch (format) {
    case QuantFormat::bf16:
      return SafeDType::bf16;
    case QuantFormat::fp16:
      return SafeDType::f16;
    case QuantFormat::e4m3:
      return SafeDType::f8_e4m3;
    case QuantFormat::e5m2:
      return SafeDType::f8_e5m2;
    case QuantFormat::int8:
    case QuantFormat::int4:
      break;
  }
  return SafeDType::i8;
}

/// The tensors of a parameter besides its codes.
struct Beside {
  std::string name;
  Span<const float> values;
};

std::vector<Beside> beside(const std::string& name, const QuantizedTensor& tensor) {
  std::vector<Beside> all;
  if (!tensor.scale.empty()) all.push_back({name + ".scale", tensor.scale});
  if (tensor.input_amax) all.push_back({name + ".input_scale", {&tensor.input_scale, 1}});
  if (!tensor.smooth.empty()) all.push_back({name + ".smooth", tensor.smooth});
  return all;
}

/// The bytes of a parameter that is not quantized: casts of widened values are exact.
std::vector<std::byte> parameter_bytes(const ModelFile& model, std::size_t tensor) {
  const Span<const float> values = model.tensor(tensor);
  const SafeDType dtype = model.dtypes[tensor];
  std::vector<std::byte> bytes(values.size() * static_cast<std::size_t>(num_bytes(dtype)));
  if (dtype == SafeDType::f32) {
    std::ranges::copy(std::as_bytes(values), bytes.begin());
  } else if (dtype == SafeDType::bf16) {
    cuda::host::cast_to_bf16({}, values, {reinterpret_cast<bf16*>(bytes.data()), values.size()});
  } else {
    cuda::host::cast_to_fp16({}, values, {reinterpret_cast<fp16*>(bytes.data()), values.size()});
  }
  return bytes;
}

SafeMetadata metadata_of(const QuantizeJob& job, const QuantizeResult& result) {
  Json payloads = Json::object();
  for (const QuantizedTensor& tensor : result.tensors)
    payloads[job.model.layout.tensors()[tensor.tensor].name] = payload_json(tensor.payload);
  Hasher hasher;
  hasher.add(std::string_view(reinterpret_cast<const char*>(job.calibration.bytes.data()),
                              job.calibration.bytes.size()));
  const Json calibration = {
      {"windows", result.samples},
      {"text", to_hex(hasher.digest())},
      {"histogram", names_of(job.growth)[static_cast<std::size_t>(job.growth)]}};
  return {
      {quantized_key, quantized_format},   {"contract_version", std::to_string(contract_version)},
      {"source", "zeroproof " ZP_VERSION}, {"workload", job.model.workload},
      {"payloads", payloads.dump()},       {"calibration", calibration.dump()}};
}

}  // namespace

void write_quantized_file(const std::string& path, const QuantizeJob& job,
                          const QuantizeResult& result) {
  const std::vector<TensorSlot>& slots = job.model.layout.tensors();
  std::vector<const QuantizedTensor*> of_slot(slots.size(), nullptr);
  for (const QuantizedTensor& tensor : result.tensors) of_slot[tensor.tensor] = &tensor;
  std::vector<SafeTensorSpec> specs;
  for (std::size_t t = 0; t < slots.size(); ++t) {
    const QuantizedTensor* const tensor = of_slot[t];
    specs.push_back({slots[t].name,
                     tensor != nullptr ? code_dtype(tensor->payload.format) : job.model.dtypes[t],
                     slots[t].shape});
    if (tensor == nullptr) continue;
    for (const Beside& more : beside(slots[t].name, *tensor))
      specs.push_back({more.name, SafeDType::f32, {std::ssize(more.values)}});
  }
  SafetensorsWriter writer(path, specs, metadata_of(job, result));
  for (std::size_t t = 0; t < slots.size(); ++t) {
    const QuantizedTensor* const tensor = of_slot[t];
    writer.write(slots[t].name, tensor != nullptr ? tensor->codes : parameter_bytes(job.model, t));
    if (tensor == nullptr) continue;
    for (const Beside& more : beside(slots[t].name, *tensor))
      writer.write(more.name, std::as_bytes(more.values));
  }
  writer.finish();
}

}  // namespace zeroproof::verification
