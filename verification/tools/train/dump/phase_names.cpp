#include "verification/tools/train/dump/phase_names.hpp"

#include <algorithm>

#include "common/base/error.hpp"
#include "common/io/files/byte_source.hpp"
#include "verification/cases/config/nearest.hpp"
#include "verification/cases/config/toml.hpp"
#include "verification/cases/id_pattern.hpp"

namespace zeroproof::verification {
namespace {

constexpr std::uint64_t largest_map = 1 << 20;
const std::string step_word = "{step}", name_word = "{name}";

[[noreturn]] void reject(const std::string& path, const TomlNode& node, const std::string& problem,
                         const std::string& remedy) {
  fail(ErrorCode::config, path + ":" + std::to_string(node.line()) + ": " + problem,
       "a tensor is found under its name", remedy);
}

std::string replaced(std::string text, const std::string& word, const std::string& value) {
  for (auto at = text.find(word); at != std::string::npos;
       at = text.find(word, at + value.size())) {
    text.replace(at, word.size(), value);
  }
  return text;
}

/// The first word in braces other than {step} and {name}; "" if there is none.
std::string unknown_word(const std::string& pattern) {
  const std::string rest = replaced(replaced(pattern, step_word, ""), name_word, "");
  const auto open = rest.find('{');
  const auto close = rest.find('}', open == std::string::npos ? 0 : open);
  return open == std::string::npos || close == std::string::npos
             ? ""
             : rest.substr(open, close - open + 1);
}

/// Buffers of any run: a table may serve several rules.
const DumpBuffer* find_buffer(const DumpPlan& plan, const std::string& name, DumpBuffer& other) {
  const auto own = std::ranges::find(plan.buffers(), name, &DumpBuffer::name);
  if (own != plan.buffers().end()) return &*own;
  for (const StateSlot slot : all_state_slots) {
    if (name != zeroproof::name(slot)) continue;
    other.per_parameter = true;
    return &other;
  }
  return name == "tensor_steps" ? &other : nullptr;
}

}  // namespace

PhaseNames PhaseNames::read(const std::string& path, const DumpPlan& plan) {
  PhaseNames names;
  std::vector<std::string> known = {"ignore"};
  for (const DumpBuffer& buffer : plan.buffers()) known.push_back(buffer.name);
  try {
    const TomlFile file(read_small_file(path, largest_map), path);
    for (const auto& [key, node] : file.root().members()) {
      if (key == "ignore") {
        if (!node.is_list()) reject(path, node, "ignore is no list", "write ignore = [\"rng.*\"]");
        for (const TomlNode& item : node.items()) {
          const std::optional<std::string> pattern = item.text();
          if (!pattern)
            reject(path, item, "ignore has " + item.shown(), "write names in quotes, with * and ?");
          names.ignored_.push_back(*pattern);
        }
        continue;
      }
      DumpBuffer other;
      const DumpBuffer* buffer = find_buffer(plan, key, other);
      if (buffer == nullptr)
        reject(path, node, "'" + key + "' is no buffer of a dump", suggestion(key, known));
      const std::optional<std::string> pattern = node.text();
      if (!pattern) {
        reject(path, node, "the name of " + key + " is no text",
               "write " + key + " = \"" + key + ".{step}.{name}\"");
      }
      const std::string unknown = unknown_word(*pattern);
      if (!unknown.empty())
        reject(path, node, "the name of " + key + " has " + unknown, "use {step} and {name}");
      const bool has_name = pattern->find(name_word) != std::string::npos;
      if (buffer->per_parameter != has_name) {
        reject(path, node, "the name of " + key + (has_name ? " has" : " lacks") + " {name}",
               has_name ? "leave it out, a step has one of these"
                        : "add it, every parameter has one of these");
      }
      names.patterns_[key] = *pattern;
    }
  } catch (const TomlError& error) {
    fail(ErrorCode::config,
         path + ":" + std::to_string(error.line) + ": " + std::string(error.what()),
         "names cannot be read from it", "write TOML, as in exp_avg = \"state.{step}.{name}.m\"");
  }
  return names;
}

std::optional<std::string> PhaseNames::theirs(const DumpBuffer& buffer, std::int64_t step,
                                              const std::string& parameter,
                                              std::int64_t last_step) const {
  const auto found = patterns_.find(buffer.name);
  if (found == patterns_.end()) return dump_name(buffer.name, step, parameter);
  const std::int64_t own_step = buffer.start_only ? 0 : last_step;
  if (found->second.find(step_word) == std::string::npos && step != own_step) return std::nullopt;
  // The name last: it may contain braces.
  return replaced(replaced(found->second, step_word, std::to_string(step)), name_word, parameter);
}

bool PhaseNames::ignores(const std::string& name) const {
  return std::ranges::any_of(ignored_, [&](const std::string& pattern) {
    return is_wild(pattern) ? matches(pattern, name) : pattern == name;
  });
}

}  // namespace zeroproof::verification
