#include "common/io/json.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "common/io/json_events.hpp"

namespace zeroproof {

/// What a value holds that is more than a number.
struct Json::Content {
  std::string text;
  std::vector<Json> items;
  std::vector<Member> members;
};

namespace {

using Library = nlohmann::ordered_json;

constexpr std::size_t most_levels =
    100;  // values are freed level by level, so deeper ones could exhaust the stack

constexpr std::size_t longest_shown_key = 64, longest_message = 300;

/// Hands the library's events on.
class Events {
 public:
  explicit Events(JsonEvents& events) : events_(events) {}

  bool null() { return events_.null(); }
  bool boolean(bool value) { return events_.boolean(value); }
  bool number_integer(std::int64_t value) { return events_.number_integer(value); }
  bool number_unsigned(std::uint64_t value) { return events_.number_unsigned(value); }
  bool number_float(double value, const std::string& text) { return events_.number_float(value, text); }
  bool string(std::string& value) { return events_.string(value); }
  bool binary(Library::binary_t&) { return false; }  // no text has such a thing
  bool start_object(std::size_t) { return events_.start_object(); }
  bool key(std::string& value) { return events_.key(value); }
  bool end_object() { return events_.end_object(); }
  bool start_array(std::size_t) { return events_.start_array(); }
  bool end_array() { return events_.end_array(); }
  bool parse_error(std::size_t position, const std::string&, const Library::exception& error) {
    events_.parse_error(position, error.what());
    return false;
  }

 private:
  JsonEvents& events_;
};

/// Builds the value that a text holds.
class Builder final : public JsonEvents {
 public:
  bool null() override { return put(Json()); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(std::int64_t value) override { return put(value); }
  bool number_unsigned(std::uint64_t value) override { return put(value); }
  bool number_float(double value, const std::string&) override { return put(value); }
  bool string(std::string& value) override { return put(std::move(value)); }
  bool start_object() override { return open(Json::object(), true); }
  bool key(std::string& value) override {
    Level& level = levels_.back();
    // Not found by a search: objects may have as many members as a text has room for.
    if (!level.keys.insert(value).second)
      throw JsonError("key '" + value.substr(0, longest_shown_key) + "' is there twice");
    level.key = std::move(value);
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array() override { return open(Json::array(), false); }
  bool end_array() override { return close(); }
  void parse_error(std::size_t, const std::string& message) override {
    // The library repeats what it was reading, however long.
    throw JsonError(message.size() <= longest_message ? message
                                                      : message.substr(0, message.find("; last read")));
  }

  Json result;

 private:
  struct Level {
    Json value;
    bool object = false;
    std::string key;
    std::unordered_set<std::string> keys = {};  ///< so far
  };

  bool open(Json value, bool object) {
    if (levels_.size() == most_levels) {
      throw JsonError("values are nested more than " + std::to_string(most_levels) + " deep");
    }
    levels_.push_back({std::move(value), object, {}});
    return true;
  }
  bool close() {
    Json value = std::move(levels_.back().value);
    levels_.pop_back();
    return put(std::move(value));
  }
  bool put(Json value) {
    if (levels_.empty()) {
      result = std::move(value);
    } else if (levels_.back().object) {
      levels_.back().value.add_member(std::move(levels_.back().key), std::move(value));
    } else {
      levels_.back().value.push_back(std::move(value));
    }
    return true;
  }

  std::vector<Level> levels_;
};

/// Text of a value that has no others in it. The library's own arrays and objects ask for memory when they end, and a
/// program whose memory is at its end would end there (out_of_memory_test).
std::string scalar_text(const Json& json) {
  switch (json.kind()) {
    case Json::Kind::boolean:
      return json.get<bool>() ? "true" : "false";
    case Json::Kind::integer:
      return std::to_string(json.get<std::int64_t>());
    case Json::Kind::natural:
      return std::to_string(json.get<std::uint64_t>());
    case Json::Kind::real:
      return Library(json.get<double>()).dump();
    default:
      return "null";
  }
}

void append_quoted(std::string& text, const std::string& value) {
  const bool plain = std::all_of(value.begin(), value.end(),
                                 [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; });
  if (plain) {
    text.append(1, '"').append(value).append(1, '"');
  } else {
    text += Library(value).dump(-1, ' ', false, Library::error_handler_t::replace);
  }
}

/// indent: spaces of a level; negative for one line.
void append(std::string& text, const Json& json, int indent, std::size_t level) {
  const auto new_line = [&](std::size_t at) {
    if (indent >= 0) text.append(1, '\n').append(at * static_cast<std::size_t>(indent), ' ');
  };
  const char* separator = "";
  if (json.kind() == Json::Kind::text) {
    append_quoted(text, json.get<std::string>());
  } else if (json.kind() == Json::Kind::array) {
    text += '[';
    for (const Json& item : json) {
      text += std::exchange(separator, ",");
      new_line(level + 1);
      append(text, item, indent, level + 1);
    }
    if (*separator != '\0') new_line(level);
    text += ']';
  } else if (json.kind() == Json::Kind::object) {
    text += '{';
    for (const auto& [name, value] : json.members()) {
      text += std::exchange(separator, ",");
      new_line(level + 1);
      append_quoted(text, name);
      text += indent >= 0 ? ": " : ":";
      append(text, value, indent, level + 1);
    }
    if (*separator != '\0') new_line(level);
    text += '}';
  } else {
    text += scalar_text(json);
  }
}

}  // namespace

Json::Json(std::string text) : kind_(Kind::text) { own().text = std::move(text); }

Json::Json(std::initializer_list<Json> values) {
  const bool object = std::all_of(values.begin(), values.end(), [](const Json& value) {
    return value.items().size() == 2 && value.items().front().kind_ == Kind::text;
  });
  *this = object ? Json::object() : array();
  for (const Json& value : values) {
    if (object) {
      own().members.push_back({value.items().front().text(), value.items().back()});
    } else {
      own().items.push_back(value);
    }
  }
}

Json Json::array() {
  Json json;
  json.kind_ = Kind::array;
  return json;
}

Json Json::object() {
  Json json;
  json.kind_ = Kind::object;
  return json;
}

Json Json::parse(std::string_view text) {
  Builder builder;
  read_json(text, builder);
  return builder.result;
}

std::string Json::dump(int indent) const {
  std::string text;
  append(text, *this, indent, 0);
  return text;
}

void Json::push_back(Json item) {
  if (is_null()) kind_ = Kind::array;
  require(Kind::array, "array");
  own().items.push_back(std::move(item));
}

Json& Json::operator[](std::string_view key) {
  if (is_null()) kind_ = Kind::object;
  require(Kind::object, "object");
  std::vector<Member>& members = own().members;
  for (Member& member : members) {
    if (member.name == key) return member.value;
  }
  return members.emplace_back(Member{std::string(key), {}}).value;
}

void Json::add_member(std::string key, Json value) {
  own().members.push_back({std::move(key), std::move(value)});
}

const Json& Json::at(std::string_view key) const {
  require(Kind::object, "object");
  const Json* value = find(key);
  if (value == nullptr) throw JsonError("key '" + std::string(key) + "' not found");
  return *value;
}

std::string Json::value(std::string_view key, const char* otherwise) const {
  require(Kind::object, "object");
  const Json* value = find(key);
  return value == nullptr ? otherwise : value->text();
}

const std::vector<Json::Member>& Json::members() const {
  static const std::vector<Member> none;
  return content_ ? content_->members : none;
}

const char* Json::kind_name() const {
  switch (kind_) {
    case Kind::null:
      return "null";
    case Kind::boolean:
      return "boolean";
    case Kind::text:
      return "string";
    case Kind::array:
      return "array";
    case Kind::object:
      return "object";
    case Kind::integer:
    case Kind::natural:
    case Kind::real:
      break;
  }
  return "number";
}

void Json::require(Kind kind, const char* wanted) const {
  if (kind_ != kind) throw JsonError("type must be " + std::string(wanted) + ", but is " + kind_name());
}

bool Json::boolean() const {
  require(Kind::boolean, "boolean");
  return number_.boolean;
}

const std::string& Json::text() const {
  require(Kind::text, "string");
  return content_->text;
}

const std::vector<Json>& Json::items() const {
  static const std::vector<Json> none;
  return content_ ? content_->items : none;
}

const Json* Json::find(std::string_view key) const {
  for (const Member& member : members()) {
    if (member.name == key) return &member.value;
  }
  return nullptr;
}

/// What it holds, and nobody else: to be changed.
Json::Content& Json::own() {
  if (!content_) content_ = std::make_shared<Content>();
  if (content_.use_count() > 1) content_ = std::make_shared<Content>(*content_);
  return *content_;
}

std::optional<std::string> json_quoted(const std::string& text) {
  try {
    return Library(text).dump();
  } catch (const Library::exception&) {
    return std::nullopt;
  }
}

void read_json(std::string_view text, JsonEvents& events) {
  Events receiver(events);
  Library::sax_parse(text.begin(), text.end(), &receiver);
}

}  // namespace zeroproof
