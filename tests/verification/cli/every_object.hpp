#pragma once
// Places of a JSON document, to take a member away from each, or to put one there.

#include <vector>

#include <nlohmann/json.hpp>

namespace zeroproof::tests {

/// Every place of a document that holds an object, or the first of a list of them.
inline void collect_objects(const nlohmann::json& value, const nlohmann::json::json_pointer& at,
                            std::vector<nlohmann::json::json_pointer>& all) {
  if (value.is_object()) {
    all.push_back(at);
    for (const auto& [name, member] : value.items()) collect_objects(member, at / name, all);
  } else if (value.is_array() && !value.empty()) {
    collect_objects(value.front(), at / 0, all);
  }
}

/// Every list with its first item alone.
inline nlohmann::json shortened(const nlohmann::json& value) {
  nlohmann::json less = value;
  if (value.is_array() && !value.empty()) less = nlohmann::json::array({shortened(value.front())});
  if (value.is_object()) {
    for (auto& [name, member] : less.items()) member = shortened(member);
  }
  return less;
}

}  // namespace zeroproof::tests
