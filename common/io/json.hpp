#pragma once
// JSON values. Only json.cpp includes nlohmann/json.hpp, which takes seconds to compile.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace zeroproof {

/// Invalid JSON, or a missing value, or a value of another type.
class JsonError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <class Value>
inline constexpr bool json_list = false;
template <class Item>
inline constexpr bool json_list<std::vector<Item>> = true;

/// C++ types of a JSON value.
template <class Value>
concept JsonReadable = (std::is_arithmetic_v<Value> && !std::is_same_v<Value, char>) ||
                       std::is_same_v<Value, std::string> || json_list<Value>;

/// A value of any type. The members of an object keep the order in which they were added.
class Json {
 public:
  enum class Kind : std::uint8_t {
    null,
    boolean,
    integer,
    unsigned_integer,
    real,
    text,
    array,
    object
  };
  struct Member;
  using Items = std::vector<Json>;
  using Members = std::vector<Member>;

  Json() = default;
  Json(std::nullptr_t) {}
  Json(bool value) : value_(value) {}
  Json(std::signed_integral auto number) : value_(std::int64_t{number}) {}
  Json(std::unsigned_integral auto number) : value_(std::uint64_t{number}) {}
  Json(std::floating_point auto number) : value_(double{number}) {}
  Json(std::string text) : value_(std::move(text)) {}
  Json(std::string_view text) : value_(std::string(text)) {}
  Json(const char* text) : value_(std::string(text)) {}
  Json(Items items) : value_(std::move(items)) {}
  Json(Members members);
  template <class Item>
  Json(const std::vector<Item>& items) : value_(Items(items.begin(), items.end())) {}
  /// An object, if every value is an array of a text and another value: {{"one", 1}, {"two", 2}}.
  /// Otherwise an array.
  Json(std::initializer_list<Json> values);
  static Json array() { return Items(); }
  static Json object();

  /// Errors: JsonError, the text is not JSON, nested more than 100 deep, or an object has a key
  /// twice.
  static Json parse(std::string_view text);
  /// In one line, or with every member in a line of its own, indented by `indent` spaces per level.
  /// Bytes that are not UTF-8 become U+FFFD.
  std::string dump(int indent = -1) const;

  /// Makes an array, or an object, of null.
  void push_back(Json item);
  Json& operator[](std::string_view key);
  Json& operator[](const char* key) { return (*this)[std::string_view(key)]; }

  Kind kind() const { return static_cast<Kind>(value_.index()); }
  bool is_null() const { return kind() == Kind::null; }
  bool contains(std::string_view key) const { return find(key) != nullptr; }
  /// Errors: JsonError, not an object, or one without that member.
  const Json& at(std::string_view key) const;
  std::string value(std::string_view key, const char* otherwise) const;
  /// The items of an array; empty for other kinds.
  const Json* begin() const { return items().data(); }
  const Json* end() const { return begin() + items().size(); }
  /// The members of an object; empty for other kinds.
  const Members& members() const;

  /// Errors: JsonError, the value has another type.
  template <JsonReadable Value>
  Value get() const {
    if constexpr (std::is_same_v<Value, bool>) {
      return as<bool>("boolean");
    } else if constexpr (std::is_same_v<Value, std::string>) {
      return as<std::string>("string");
    } else if constexpr (json_list<Value>) {
      Value list;
      for (const Json& item : as<Items>("array"))
        list.push_back(item.get<typename Value::value_type>());
      return list;
    } else {
      if (const auto* integer = std::get_if<std::int64_t>(&value_))
        return static_cast<Value>(*integer);
      if (const auto* integer = std::get_if<std::uint64_t>(&value_))
        return static_cast<Value>(*integer);
      return static_cast<Value>(as<double>("number"));
    }
  }
  template <JsonReadable Value>
  operator Value() const {
    return get<Value>();
  }

  /// In the order of Kind.
  using Content = std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double,
                               std::string, Items, Members>;
  const Content& content() const { return value_; }

 private:
  template <class Type>
  const Type& as(const char* wanted) const {
    const Type* value = std::get_if<Type>(&value_);
    if (value == nullptr) refuse(wanted);
    return *value;
  }
  [[noreturn]] void refuse(const char* wanted) const;
  const Items& items() const;
  const Json* find(std::string_view key) const;

  Content value_;
};

struct Json::Member {
  std::string name;
  Json value;
};

/// The text in quotes, as JSON writes it; nullopt if it is not UTF-8.
std::optional<std::string> json_quoted(const std::string& text);

}  // namespace zeroproof
