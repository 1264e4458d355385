#include "verification/tools/quantize/calibration/model_file.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/base/error.hpp"
#include "common/base/float_formats.hpp"
#include "common/io/safetensors/safetensors_reader.hpp"
#include "verification/cases/experiment.hpp"
#include "verification/tools/quantize/quantized_format.hpp"

namespace zeroproof::verification {
namespace {

constexpr std::string_view dumped = "param.";

/// "param.30." of the last step there is; "" if the file is no dump.
std::string prefix_of(const SafetensorsReader& reader) {
  std::string found;
  std::int64_t last = -1;
  for (const SafeTensor& tensor : reader.header().tensors) {
    const std::string& name = tensor.name;
    const std::size_t end = name.find('.', dumped.size());
    if (!name.starts_with(dumped) || end == std::string::npos || end - dumped.size() > 15) continue;
    const std::string digits = name.substr(dumped.size(), end - dumped.size());
    if (digits.empty() || digits.find_first_not_of("0123456789") != std::string::npos) continue;
    if (const std::int64_t step = std::stoll(digits); step > last) {
      last = step;
      found = name.substr(0, end + 1);
    }
  }
  return found;
}

std::string shape_words(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t extent : shape)
    text += (text.empty() ? "" : " x ") + std::to_string(extent);
  return "[" + text + "]";
}

/// The reason why a file is not this model; "" if it is.
std::string mismatch(const SafetensorsReader& reader, const std::string& prefix,
                     const std::vector<ParamSpec>& params) {
  for (const ParamSpec& param : params) {
    const SafeTensor* const tensor = reader.find(prefix + param.name);
    if (tensor == nullptr) return "it has no tensor " + shown_name(prefix + param.name);
    if (tensor->shape != param.shape)
      return shown_name(tensor->name) + " is " + shape_words(tensor->shape) + " and not " +
             shape_words(param.shape);
  }
  if (!prefix.empty()) return "";
  for (const SafeTensor& tensor : reader.header().tensors) {
    if (std::ranges::none_of(params,
                             [&](const ParamSpec& param) { return param.name == tensor.name; }))
      return "its tensor " + shown_name(tensor.name) + " has no place in it";
  }
  return "";
}

void read_tensor(const SafetensorsReader& reader, const SafeTensor& tensor, Span<float> values) {
  std::vector<std::byte> bytes(tensor.num_bytes());
  reader.read(tensor, 0, bytes);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (tensor.dtype == SafeDType::f32) {
      std::memcpy(&values[i], bytes.data() + 4 * i, 4);
    } else {
      std::uint16_t bits = 0;
      std::memcpy(&bits, bytes.data() + 2 * i, 2);
      values[i] = tensor.dtype == SafeDType::bf16 ? to_float(bf16{bits}) : to_float(fp16{bits});
    }
  }
  const auto bad = std::ranges::count_if(values, [](float value) { return !std::isfinite(value); });
  ZP_CHECK(bad == 0, ErrorCode::nonfinite,
           reader.label() + ": " + std::to_string(bad) + " of the " +
               std::to_string(values.size()) + " elements of " + shown_name(tensor.name) +
               " are infinite or NaN",
           "no code represents them", "quantize a model whose training has not diverged");
}

}  // namespace

ModelFile read_model_file(const std::string& path) {
  const SafetensorsReader reader = SafetensorsReader::open(path);
  ZP_CHECK(!is_quantized(reader.metadata()), ErrorCode::config, path + " is quantized already",
           "its tensors are codes and scales, no parameters",
           "name the file that it was made from");
  const std::string prefix = prefix_of(reader);
  std::string problem;
  for (const std::string& workload : workload_names()) {
    const ModelConfig m = workload_defaults(workload).model;
    const workload::ByteGptShape shape{m.layers, m.width, m.heads, m.hidden, m.context};
    const std::vector<ParamSpec> params = workload::byte_gpt_params(shape);
    const std::string why = mismatch(reader, prefix, params);
    if (!why.empty()) {
      problem += (problem.empty() ? "" : "; ") + workload + ": " + why;
      continue;
    }
    ModelFile model{path, workload, shape, FlatLayout(params), {}, {}};
    model.params.resize(model.layout.padded_numel(), 0.0F);
    for (const TensorSlot& slot : model.layout.tensors()) {
      const SafeTensor& tensor = *reader.find(prefix + slot.name);
      ZP_CHECK(tensor.dtype == SafeDType::f32 || tensor.dtype == SafeDType::bf16 ||
                   tensor.dtype == SafeDType::f16,
               ErrorCode::config,
               path + ": " + shown_name(tensor.name) + " is of the type " +
                   std::string(name(tensor.dtype)),
               "parameters are F32, BF16 or F16", "name a file of parameters");
      model.dtypes.push_back(tensor.dtype);
      read_tensor(reader, tensor, Span<float>(model.params).subspan(slot.begin, slot.numel));
    }
    return model;
  }
  fail(ErrorCode::config, path + " is no model of a workload (" + problem + ")",
       "calibration runs the model", "name a file of zeroproof train --dump or verify --dump");
}

}  // namespace zeroproof::verification
