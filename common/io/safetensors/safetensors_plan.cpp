#include <algorithm>
#include <tuple>

#include "common/base/error.hpp"
#include "common/io/json.hpp"
#include "common/io/safetensors/safetensors_header.hpp"

namespace zeroproof {
namespace {

std::string json_text(const std::string& text) {
  const std::optional<std::string> quoted = json_quoted(text);
  ZP_CHECK(quoted.has_value(), ErrorCode::invalid_argument,
           "the metadata text " + shown_name(text) + " is not UTF-8", "the header is JSON",
           "convert it to UTF-8");
  return *quoted;
}

std::string joined(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (const std::int64_t number : numbers) {
    if (!text.empty()) text += ',';
    text += std::to_string(number);
  }
  return text;
}

void check_spec(const SafeTensorSpec& spec, const SafetensorsLimits& limits) {
  const std::string problem = safetensors_name_problem(spec.name, limits);
  ZP_CHECK(problem.empty(), ErrorCode::invalid_argument,
           "the tensor name " + shown_name(spec.name) + " " + problem,
           "readers would reject the file", "choose another name");
  const std::optional<std::int64_t> numel = safetensors_numel(spec.shape);
  ZP_CHECK(numel && *numel <= (std::int64_t{1} << 53) / num_bytes(spec.dtype) &&
               static_cast<std::int64_t>(spec.shape.size()) <= limits.rank,
           ErrorCode::invalid_argument,
           "tensor " + shown_name(spec.name) + " has a shape that exceeds the limits",
           "readers would reject the file",
           "use at most " + std::to_string(limits.rank) +
               " dimensions of 0 or more and fewer than 2^53 bytes");
}

}  // namespace

SafetensorsHeader plan_safetensors(const std::vector<SafeTensorSpec>& tensors,
                                   SafeMetadata metadata, const SafetensorsLimits& limits) {
  ZP_CHECK(static_cast<std::int64_t>(tensors.size()) <= limits.tensors, ErrorCode::invalid_argument,
           "a file of " + std::to_string(tensors.size()) + " tensors was requested",
           "readers accept " + std::to_string(limits.tensors), "split it");
  ZP_CHECK(static_cast<std::int64_t>(metadata.size()) <= limits.metadata_entries,
           ErrorCode::invalid_argument,
           "metadata of " + std::to_string(metadata.size()) + " entries was given",
           "readers accept " + std::to_string(limits.metadata_entries), "put data into tensors");
  for (const auto& [key, value] : metadata) {
    const auto longest =
        static_cast<std::int64_t>(std::max(json_text(key).size(), json_text(value).size())) - 2;
    ZP_CHECK(
        longest <= limits.text_bytes, ErrorCode::invalid_argument,
        "the metadata " + shown_name(key) + " has a text of " + std::to_string(longest) + " bytes",
        "readers accept " + std::to_string(limits.text_bytes), "put it into a tensor of U8");
  }
  SafetensorsHeader header;
  header.metadata = std::move(metadata);
  for (const SafeTensorSpec& spec : tensors) {
    check_spec(spec, limits);
    static_cast<SafeTensorSpec&>(header.tensors.emplace_back()) = spec;
  }
  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const SafeTensor& a, const SafeTensor& b) {
              const std::int64_t size_a = num_bytes(a.dtype);
              const std::int64_t size_b = num_bytes(b.dtype);
              return std::tie(size_b, a.name) < std::tie(size_a, b.name);
            });
  for (SafeTensor& tensor : header.tensors) {
    tensor.begin = header.data_bytes;
    tensor.end = tensor.begin + *safetensors_numel(tensor.shape) * num_bytes(tensor.dtype);
    header.data_bytes = tensor.end;
    ZP_CHECK(header.data_bytes <= std::int64_t{1} << 53, ErrorCode::invalid_argument,
             "the tensors have more than 2^53 bytes together", "no reader could address them",
             "split the file");
  }
  const std::string* twice = header.index_names();
  ZP_CHECK(twice == nullptr, ErrorCode::invalid_argument,
           "the tensor name " + shown_name(*twice) + " is used twice",
           "a reader could not distinguish the two", "use unique tensor names");
  header.data_begin = 8 + static_cast<std::int64_t>(safetensors_header_text(header).size());
  return header;
}

std::string safetensors_header_text(const SafetensorsHeader& header) {
  std::string text = "{";
  const auto separate = [&] {
    if (text.size() > 1) text += ",";
  };
  if (!header.metadata.empty()) {
    std::string entries;
    for (const auto& [key, value] : header.metadata) {
      if (!entries.empty()) entries += ',';
      entries.append(json_text(key)).append(":").append(json_text(value));
    }
    text += "\"__metadata__\":{" + entries + "}";
  }
  for (const SafeTensor& tensor : header.tensors) {
    separate();
    text += json_text(tensor.name) + ":{\"dtype\":\"" + std::string(name(tensor.dtype)) +
            "\",\"shape\":[" + joined(tensor.shape) + "],\"data_offsets\":[" +
            joined({tensor.begin, tensor.end}) + "]}";
  }
  text += "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace zeroproof
