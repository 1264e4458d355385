#include "verification/tools/plan/model.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "common/base/error.hpp"
#include "common/io/files/regular_file.hpp"
#include "common/io/safetensors/safetensors_reader.hpp"
#include "verification/cases/config/config.hpp"
#include "verification/cases/experiment.hpp"
#include "verification/cli/program/file_text.hpp"
#include "verification/model/recorded.hpp"
#include "verification/tools/plan/model_folder.hpp"
#include "verification/tools/quantize/quantized_format.hpp"

namespace zeroproof::verification {
namespace {

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

/// Columns of the first matmul of a pair are split, and rows of the second (R18).
int byte_gpt_cut(const std::string& name) {
  for (const char* layer :
       {"attention.query", "attention.key", "attention.value", "mlp.gate", "mlp.up"}) {
    if (ends_with(name, std::string(layer) + ".weight")) return 1;
    if (ends_with(name, std::string(layer) + ".bias")) return 0;
  }
  for (const char* layer : {"attention.output", "mlp.down"}) {
    if (ends_with(name, std::string(layer) + ".weight")) return 0;
  }
  return -1;
}

PlannedModel workload_model(const std::string& workload) {
  PlannedModel model{workload, {}, true};
  const workload::ByteGptShape shape = model_shape(workload, workload_defaults(workload).model);
  for (const ParamSpec& spec : workload::byte_gpt_params(shape)) {
    model.tensors.push_back({spec, byte_gpt_cut(spec.name)});
  }
  return model;
}

bool has_elements(const PlannedTensor& tensor) {
  const std::vector<std::int64_t>& shape = tensor.spec.shape;
  return std::find(shape.begin(), shape.end(), 0) == shape.end();
}

std::string read_text(const std::string& path) {
  require_regular_file(path, "model description");
  const std::optional<std::string> text = file_text(path);
  ZP_CHECK(text.has_value(), ErrorCode::io, "model description " + path + " cannot be read",
           "there is nothing to plan for", "check the name and the permissions");
  return *text;
}

/// "a.layers.3.b.c" is of "a.layers.3"; a name without a number belongs to the range between
/// numbered ones, "".
std::string unit_name(const std::string& tensor) {
  for (std::size_t end = tensor.find('.'); end != std::string::npos;
       end = tensor.find('.', end + 1)) {
    if (end > 0 && std::isdigit(static_cast<unsigned char>(tensor[end - 1])) != 0)
      return tensor.substr(0, end);
  }
  return "";
}

PlannedModel model_of_file(const std::string& path) {
  if (ends_with(path, ".safetensors")) {
    ZP_CHECK(!is_part_of_model(path), ErrorCode::config, path + " is one part of a model",
             "a plan needs all of its tensors",
             "name the folder, or its model.safetensors.index.json");
    return stored_model(path);
  }
  if (ends_with(path, ".index.json")) return indexed_model(path);
  if (ends_with(path, "config.json")) return configured_model(path);
  ZP_CHECK(ends_with(path, ".toml"), ErrorCode::config, "'" + path + "' is no model",
           "a plan needs names and shapes of tensors",
           "name a description *.toml, a file *.safetensors, a folder, an *.index.json or "
           "config.json of Hugging Face, " +
               workload_list());
  return parse_model_toml(read_text(path), path);
}

}  // namespace

PlannedModel stored_model(const std::string& path) {
  SafetensorsLimits limits;
  limits.header_bytes = largest_safetensors_header;
  const SafetensorsReader reader = SafetensorsReader::open(path, limits);
  ZP_CHECK(!is_quantized(reader.metadata()), ErrorCode::config, path + " is a quantized model",
           "its tensors are codes and scales, no parameters",
           "name the file that it was made from");
  PlannedModel model{path, {}, false};
  for (const SafeTensor& tensor : reader.header().tensors) {
    ZP_CHECK(!workload::is_gradient_name(tensor.name), ErrorCode::config,
             path + " is a recording: it holds " + shown_name(tensor.name),
             "the gradients of every micro-batch would be planned for as if they were parameters",
             "name a file with a model's parameters, or the workload that was recorded");
    model.tensors.push_back({{tensor.name, tensor.shape}, -1});
  }
  ZP_CHECK(!model.tensors.empty(), ErrorCode::config, path + " holds no tensor",
           "there is nothing to plan for", "name a file with a model's parameters");
  return model;
}

std::int64_t PlannedModel::numel() const {
  std::int64_t sum = 0;
  for (const PlannedTensor& tensor : tensors) sum += tensor.spec.numel();
  return sum;
}

PlannedModel load_model(const std::string& what) {
  const std::vector<std::string>& workloads = workload_names();
  if (std::find(workloads.begin(), workloads.end(), what) != workloads.end())
    return workload_model(what);
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(what, ignored);
  PlannedModel model = model_of_file(folder ? model_file_in(what) : what);
  ZP_CHECK(std::any_of(model.tensors.begin(), model.tensors.end(), has_elements), ErrorCode::config,
           "no tensor of " + what + " has an element",
           "every figure of a plan is a share of the elements",
           "give a tensor a shape without a 0");
  return model;
}

std::vector<ParamSpec> tp_shapes(const PlannedModel& model, int tp) {
  std::vector<ParamSpec> specs;
  for (const PlannedTensor& tensor : model.tensors) {
    specs.push_back(tensor.spec);
    if (tensor.tp_cut < 0 || tp == 1) continue;
    std::int64_t& extent = specs.back().shape[tensor.tp_cut];
    ZP_CHECK(extent % tp == 0, ErrorCode::config,
             "dimension " + std::to_string(tensor.tp_cut) + " of " + shown_name(tensor.spec.name) +
                 " is " + std::to_string(extent) + " and " + std::to_string(tp) +
                 " TP ranks cannot share it evenly",
             "every TP rank computes the same number of columns", "use a tp that divides it");
    extent /= tp;
  }
  return specs;
}

std::vector<FlatRange> named_units(const FlatLayout& layout) {
  std::vector<FlatRange> units;
  std::string current;
  for (const TensorSlot& slot : layout.tensors()) {
    const std::string unit = unit_name(slot.name);
    if (units.empty() || unit != current) {
      if (!units.empty()) units.back().end = slot.begin;
      units.push_back({slot.begin, slot.begin});
    }
    current = unit;
  }
  if (!units.empty()) units.back().end = layout.padded_numel();
  return units;
}

}  // namespace zeroproof::verification
