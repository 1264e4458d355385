// A model description in TOML.

#include <algorithm>
#include <optional>

#include "common/base/error.hpp"
#include "common/io/safetensors/safetensors_types.hpp"
#include "verification/cases/config/nearest.hpp"
#include "verification/cases/config/toml.hpp"
#include "verification/tools/plan/model.hpp"

namespace zeroproof::verification {
namespace {

constexpr std::int64_t most_tensors = std::int64_t{1} << 19;
constexpr std::int64_t most_dimensions = 64;
const std::string placeholder = "{i}";

struct Entry {
  PlannedTensor tensor;
  std::int64_t repeat = 0;  ///< 0: once, without a number
};

[[noreturn]] void reject(const std::string& file, const TomlNode& node, const std::string& problem,
                         const std::string& why, const std::string& remedy) {
  fail(ErrorCode::config, file + ":" + std::to_string(node.line()) + ": " + problem, why, remedy);
}

std::int64_t integer(const std::string& file, const TomlNode& node, const std::string& key,
                     std::int64_t low, std::int64_t high) {
  const std::optional<std::int64_t> value = node.integer();
  if (!value || *value < low || *value > high) {
    reject(file, node,
           key + " is not an integer from " + std::to_string(low) + " to " + std::to_string(high),
           "sizes are counted from it", "write such a number");
  }
  return *value;
}

std::vector<std::int64_t> read_shape(const std::string& file, const TomlNode& node) {
  const std::vector<TomlNode> dimensions = node.items();
  if (!node.is_list() || static_cast<std::int64_t>(dimensions.size()) > most_dimensions) {
    reject(file, node, "shape is no list of dimensions",
           "a tensor's elements are counted from them",
           "write a list such as [768, 3072], or [] for one element");
  }
  std::vector<std::int64_t> shape;
  shape.reserve(dimensions.size());
  for (const TomlNode& item : dimensions) {
    shape.push_back(integer(file, item, "a dimension of shape", 0, std::int64_t{1} << 53));
  }
  return shape;
}

Entry read_entry(const std::string& file, const TomlNode& table) {
  static const std::vector<std::string> keys = {"name", "shape", "tp", "repeat"};
  for (const auto& [key, node] : table.members()) {
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
    reject(file, node, "key " + shown_name(key) + " is unknown", "it would have no effect",
           suggestion(key, keys));
  }
  Entry entry;
  const std::optional<TomlNode> name = table.member("name");
  const std::optional<TomlNode> shape = table.member("shape");
  if (!name || !shape || !name->text()) {
    reject(file, table, "a tensor has no name or no shape", "both are needed to place it",
           "write name = \"...\" and shape = [...]");
  }
  entry.tensor.spec.name = *name->text();
  const std::string problem = safetensors_name_problem(entry.tensor.spec.name);
  if (!problem.empty()) {
    reject(file, *name,
           "the name " + shown_name(entry.tensor.spec.name) + " cannot be used: " + problem,
           "reports name tensors", "choose another name");
  }
  entry.tensor.spec.shape = read_shape(file, *shape);
  if (const std::optional<TomlNode> repeat = table.member("repeat")) {
    entry.repeat = integer(file, *repeat, "repeat", 1, most_tensors);
  }
  if ((entry.tensor.spec.name.find(placeholder) != std::string::npos) != (entry.repeat > 0)) {
    reject(file, *name, "name and repeat do not fit",
           "a repeated tensor needs a number in its name, others have none",
           "write {i} in the name and repeat = N, or neither");
  }
  if (const std::optional<TomlNode> cut = table.member("tp")) {
    const auto rank = static_cast<std::int64_t>(entry.tensor.spec.shape.size());
    if (rank == 0)
      reject(file, *cut, "tp splits a tensor without dimensions", "there is nothing to split",
             "leave tp out");
    entry.tensor.tp_cut = static_cast<int>(integer(file, *cut, "tp", 0, rank - 1));
  }
  return entry;
}

PlannedTensor numbered(const Entry& entry, std::int64_t number) {
  PlannedTensor tensor = entry.tensor;
  if (entry.repeat == 0) return tensor;
  std::string& name = tensor.spec.name;
  for (std::size_t at = name.find(placeholder); at != std::string::npos;
       at = name.find(placeholder)) {
    name.replace(at, placeholder.size(), std::to_string(number));
  }
  return tensor;
}

void append(const std::vector<Entry>& group, const std::string& file, PlannedModel& model) {
  const std::int64_t repeat = group.empty() ? 0 : std::max<std::int64_t>(1, group.front().repeat);
  const auto count = static_cast<std::int64_t>(model.tensors.size() +
                                               group.size() * static_cast<std::size_t>(repeat));
  ZP_CHECK(count <= most_tensors, ErrorCode::config,
           file + " describes more than " + std::to_string(most_tensors) + " tensors",
           "a plan lists every one", "plan for a part of the model");
  for (std::int64_t i = 0; i < repeat; ++i) {
    for (const Entry& entry : group) model.tensors.push_back(numbered(entry, i));
  }
}

TomlFile parse(const std::string& text, const std::string& file_name) {
  try {
    return TomlFile(text, file_name);
  } catch (const TomlError& error) {
    fail(ErrorCode::config, file_name + ":" + std::to_string(error.line) + ": this is no TOML",
         error.what(), "correct the line");
  }
}

}  // namespace

PlannedModel parse_model_toml(const std::string& text, const std::string& file_name) {
  const TomlFile file = parse(text, file_name);
  std::vector<TomlNode> list;
  for (const auto& [key, node] : file.root().members()) {
    if (key == "tensor") list = node.items();
    if (key != "tensor" || !node.is_list()) {
      reject(file_name, node, "key " + shown_name(key) + " is no list of tensors",
             "a description holds nothing else", "write [[tensor]] above every tensor");
    }
  }
  ZP_CHECK(!list.empty(), ErrorCode::config, file_name + " describes no tensor",
           "there is nothing to plan for", "write [[tensor]] with name and shape");
  PlannedModel model{file_name, {}, true};
  std::vector<Entry> group;  // neighbours that are repeated together
  for (const TomlNode& node : list) {
    if (!node.is_table()) {
      reject(file_name, node, "an entry of tensor is no table", "a tensor has a name and a shape",
             "write [[tensor]] above every tensor");
    }
    Entry entry = read_entry(file_name, node);
    if (!group.empty() && (group.front().repeat == 0 || group.front().repeat != entry.repeat)) {
      append(group, file_name, model);
      group.clear();
    }
    group.push_back(std::move(entry));
  }
  append(group, file_name, model);
  return model;
}

}  // namespace zeroproof::verification
