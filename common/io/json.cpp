#include "common/io/json.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>

namespace zeroproof {
namespace {

using Library = nlohmann::ordered_json;

// Values are destroyed recursively: deeper ones could exhaust the stack.
constexpr std::size_t most_levels = 100;
constexpr std::size_t longest_shown_key = 64, longest_message = 300;

/// Builds the value of a text from the parser's events. The parser's own tree keeps the last of two
/// equal keys and searches all members of an object for every new one.
class Builder final : public nlohmann::json_sax<Library> {
 public:
  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(std::int64_t value) override { return put(value); }
  bool number_unsigned(std::uint64_t value) override { return put(value); }
  bool number_float(double value, const std::string&) override { return put(value); }
  bool string(std::string& value) override { return put(std::move(value)); }
  bool binary(Library::binary_t&) override { return false; }  // not in texts
  bool start_object(std::size_t) override { return open(true); }
  bool key(std::string& name) override {
    Level& level = levels_.back();
    if (!level.keys.insert(name).second)
      throw JsonError("key '" + name.substr(0, longest_shown_key) + "' appears twice");
    level.members.push_back({std::move(name), {}});
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(false); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t, const std::string&, const Library::exception& error) override {
    const std::string message = error.what();  // repeats the last token, however long
    throw JsonError(message.size() <= longest_message
                        ? message
                        : message.substr(0, message.find("; last read")));
  }

  Json result;

 private:
  struct Level {
    bool is_object = false;
    Json::Items items = {};
    Json::Members members = {};
    std::unordered_set<std::string> keys = {};
  };

  bool open(bool is_object) {
    if (levels_.size() == most_levels)
      throw JsonError("values are nested more than " + std::to_string(most_levels) + " deep");
    levels_.push_back({is_object});
    return true;
  }
  bool close() {
    Level level = std::move(levels_.back());
    levels_.pop_back();
    return put(level.is_object ? Json(std::move(level.members)) : Json(std::move(level.items)));
  }
  bool put(Json value) {
    if (levels_.empty()) {
      result = std::move(value);
    } else if (levels_.back().is_object) {
      levels_.back().members.back().value = std::move(value);
    } else {
      levels_.back().items.push_back(std::move(value));
    }
    return true;
  }

  std::vector<Level> levels_;
};

Library to_library(const Json& json);

struct ToLibrary {
  Library operator()(const Json::Items& items) const {
    Library::array_t array;
    for (const Json& item : items) array.push_back(to_library(item));
    return array;
  }
  Library operator()(const Json::Members& members) const {
    Library::object_t object;
    object.reserve(members.size());
    for (const auto& [name, value] : members) object.emplace_back(name, to_library(value));
    return object;
  }
  Library operator()(const auto& scalar) const { return scalar; }
};

Library to_library(const Json& json) { return std::visit(ToLibrary{}, json.content()); }

}  // namespace

Json::Json(Members members) : value_(std::move(members)) {}

Json::Json(std::initializer_list<Json> values) {
  const bool is_object = std::all_of(values.begin(), values.end(), [](const Json& value) {
    return value.items().size() == 2 && value.items().front().kind() == Kind::text;
  });
  if (!is_object) {
    value_ = Items(values);
    return;
  }
  Members members;
  for (const Json& value : values) members.push_back({value.items().front(), value.items().back()});
  value_ = std::move(members);
}

Json Json::object() { return Members(); }

Json Json::parse(std::string_view text) {
  Builder builder;
  Library::sax_parse(text, &builder);
  return std::move(builder.result);
}

std::string Json::dump(int indent) const {
  return to_library(*this).dump(indent, ' ', false, Library::error_handler_t::replace);
}

void Json::push_back(Json item) {
  if (is_null()) value_ = Items();
  if (kind() != Kind::array) refuse("array");
  std::get<Items>(value_).push_back(std::move(item));
}

Json& Json::operator[](std::string_view key) {
  if (is_null()) value_ = Members();
  if (kind() != Kind::object) refuse("object");
  auto& members = std::get<Members>(value_);
  const auto found = std::ranges::find(members, key, &Member::name);
  return (found != members.end() ? *found : members.emplace_back(Member{std::string(key), {}}))
      .value;
}

const Json& Json::at(std::string_view key) const {
  as<Members>("object");
  const Json* value = find(key);
  if (value == nullptr) throw JsonError("key '" + std::string(key) + "' not found");
  return *value;
}

std::string Json::value(std::string_view key, const char* otherwise) const {
  as<Members>("object");
  const Json* value = find(key);
  return value == nullptr ? otherwise : value->get<std::string>();
}

const Json::Members& Json::members() const {
  static const Members none;
  const auto* members = std::get_if<Members>(&value_);
  return members == nullptr ? none : *members;
}

void Json::refuse(const char* wanted) const {
  constexpr const char* names[] = {"null",   "boolean", "number", "number",
                                   "number", "string",  "array",  "object"};
  throw JsonError("type must be " + std::string(wanted) + ", but is " + names[value_.index()]);
}

const Json::Items& Json::items() const {
  static const Items none;
  const auto* items = std::get_if<Items>(&value_);
  return items == nullptr ? none : *items;
}

const Json* Json::find(std::string_view key) const {
  for (const Member& member : members()) {
    if (member.name == key) return &member.value;
  }
  return nullptr;
}

std::optional<std::string> json_quoted(const std::string& text) {
  try {
    return Library(text).dump();
  } catch (const Library::exception&) {
    return std::nullopt;
  }
}

}  // namespace zeroproof
