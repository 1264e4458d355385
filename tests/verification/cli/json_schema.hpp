#pragma once
// Checks a JSON document against a JSON Schema, as far as ours go: a keyword it does not know is an error, so that
// nothing is left unchecked in silence.

#include <algorithm>
#include <map>
#include <regex>
#include <stdexcept>
#include <string>

#include <nlohmann/json.hpp>

namespace zeroproof::tests {

class JsonSchema {
 public:
  using Json = nlohmann::json;

  explicit JsonSchema(Json schema) : schema_(std::move(schema)) {}

  /// Where the document is not as the schema says, "" if nowhere.
  std::string complaint(const Json& document) const { return check(schema_, document, "report"); }

 private:
  std::string check(const Json& schema, const Json& value, const std::string& at) const {
    for (const auto& [word, wanted] : schema.items()) {
      const std::string found = check_word(word, wanted, schema, value, at);
      if (!found.empty()) return found;
    }
    return "";
  }

  std::string check_word(const std::string& word, const Json& wanted, const Json& schema, const Json& value,
                         const std::string& at) const {
    if (word == "$schema" || word == "$defs" || word == "title" || word == "description") return "";
    if (word == "$ref")
      return check(schema_.at(Json::json_pointer(wanted.get<std::string>().substr(1))), value, at);
    if (word == "const") return value == wanted ? "" : at + " is not " + wanted.dump();
    if (word == "enum") {
      return std::find(wanted.begin(), wanted.end(), value) != wanted.end() ? "" : at + " is " + value.dump();
    }
    if (word == "type") return has_type(wanted, value) ? "" : at + " is no " + wanted.dump();
    if (word == "oneOf") {
      const auto fits = [&](const Json& one) { return check(one, value, at).empty(); };
      return std::count_if(wanted.begin(), wanted.end(), fits) == 1 ? "" : at + " is none of what it can be";
    }
    if (word == "minimum")
      return !value.is_number() || value >= wanted ? "" : at + " is below " + wanted.dump();
    if (word == "maximum")
      return !value.is_number() || value <= wanted ? "" : at + " is above " + wanted.dump();
    if (word == "pattern") {
      const bool fits = !value.is_string() || std::regex_search(value.get<std::string>(), compiled(wanted));
      return fits ? "" : at + " is " + value.dump();
    }
    if (word == "items") return check_items(wanted, value, at);
    if (word == "required") {
      for (const Json& name : wanted) {
        if (value.is_object() && !value.contains(name.get<std::string>()))
          return at + " lacks " + name.dump();
      }
      return "";
    }
    if (word == "properties" || word == "additionalProperties") return check_members(schema, value, at);
    throw std::logic_error("the check of JSON Schemas does not know the keyword " + word);
  }

  std::string check_items(const Json& wanted, const Json& value, const std::string& at) const {
    for (std::size_t i = 0; value.is_array() && i < value.size(); ++i) {
      const std::string found = check(wanted, value[i], at + "[" + std::to_string(i) + "]");
      if (!found.empty()) return found;
    }
    return "";
  }

  std::string check_members(const Json& schema, const Json& value, const std::string& at) const {
    if (!value.is_object()) return "";
    static const Json nothing = Json::object();
    static const Json anything = true;
    const Json& known = schema.contains("properties") ? schema.at("properties") : nothing;
    const Json& rest = schema.contains("additionalProperties") ? schema.at("additionalProperties") : anything;
    for (const auto& [name, member] : value.items()) {
      if (!known.contains(name) && rest == false) return at + " has \"" + name + "\"";
      if (!known.contains(name) && rest.is_boolean()) continue;
      const std::string found = check(known.contains(name) ? known.at(name) : rest, member, at + "." + name);
      if (!found.empty()) return found;
    }
    return "";
  }

  static bool has_type(const Json& wanted, const Json& value) {
    if (wanted.is_array()) {
      return std::any_of(wanted.begin(), wanted.end(), [&](const Json& one) { return has_type(one, value); });
    }
    const std::string type = wanted.get<std::string>();
    if (type == "null") return value.is_null();
    if (type == "boolean") return value.is_boolean();
    if (type == "string") return value.is_string();
    if (type == "array") return value.is_array();
    if (type == "object") return value.is_object();
    if (type == "integer") return value.is_number_integer();
    if (type == "number") return value.is_number();
    throw std::logic_error("the check of JSON Schemas does not know the type " + type);
  }

  const std::regex& compiled(const std::string& pattern) const {
    const auto found = patterns_.find(pattern);
    return found != patterns_.end() ? found->second : patterns_.emplace(pattern, pattern).first->second;
  }

  Json schema_;
  mutable std::map<std::string, std::regex> patterns_;  // compiled once
};

}  // namespace zeroproof::tests
