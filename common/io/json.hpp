#pragma once
// JSON, as a value that is cheap to include: only json.cpp reads the JSON library, which takes seconds wherever it is
// included.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace zeroproof {

/// A text that is no JSON, or a value that is missing or of another type.
class JsonError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <class Value>
inline constexpr bool json_list = false;
template <class Item>
inline constexpr bool json_list<std::vector<Item>> = true;

/// What a value can be read as.
template <class Value>
concept JsonReadable = (std::is_arithmetic_v<Value> && !std::is_same_v<Value, char>) ||
                       std::is_same_v<Value, std::string> || json_list<Value>;

/// A value of any type; the members of an object stay in the order in which they came. Copies share what they hold
/// until one of them is changed.
class Json {
 public:
  enum class Kind : std::uint8_t { null, boolean, integer, natural, real, text, array, object };
  struct Member;

  Json() = default;
  Json(std::nullptr_t) {}
  template <class Number>
  requires std::is_arithmetic_v<Number> Json(Number number) {
    if constexpr (std::is_same_v<Number, bool>) {
      kind_ = Kind::boolean, number_.boolean = number;
    } else if constexpr (std::is_floating_point_v<Number>) {
      kind_ = Kind::real, number_.real = number;
    } else if constexpr (std::is_signed_v<Number>) {
      kind_ = Kind::integer, number_.integer = number;
    } else {
      kind_ = Kind::natural, number_.natural = number;
    }
  }
  Json(std::string text);
  Json(std::string_view text) : Json(std::string(text)) {}
  Json(const char* text) : Json(std::string(text)) {}
  template <class Item>
  Json(const std::vector<Item>& items) : Json(array()) {
    for (const Item& item : items) push_back(item);
  }
  /// An object, if every value is an array of a text and something else: {{"one", 1}, {"two", 2}}. An array, if not.
  Json(std::initializer_list<Json> values);
  static Json array();
  static Json object();

  /// Errors: JsonError, the text is not JSON, nested more than 100 deep, or has a key twice in one object.
  static Json parse(std::string_view text);
  /// As text: in one line, or with every member in a line of its own, `indent` blanks deeper than what holds it.
  /// Bytes that are not UTF-8 become U+FFFD.
  std::string dump(int indent = -1) const;

  /// Makes an array, or an object, of null.
  void push_back(Json item);
  Json& operator[](std::string_view key);
  Json& operator[](const char* key) { return (*this)[std::string_view(key)]; }
  /// Of an object that has none of that name, which is not looked for.
  void add_member(std::string key, Json value);

  Kind kind() const { return kind_; }
  bool is_null() const { return kind_ == Kind::null; }
  bool contains(std::string_view key) const { return find(key) != nullptr; }
  /// Errors: JsonError, no object, or one without that member.
  const Json& at(std::string_view key) const;
  std::string value(std::string_view key, const char* otherwise) const;
  /// Of an array; nothing of anything else.
  const Json* begin() const { return items().data(); }
  const Json* end() const { return items().data() + items().size(); }
  /// Of an object; nothing of anything else.
  const std::vector<Member>& members() const;

  /// Errors: JsonError, of another type.
  template <JsonReadable Value>
  Value get() const {
    if constexpr (std::is_same_v<Value, bool>) {
      return boolean();
    } else if constexpr (std::is_arithmetic_v<Value>) {
      return number<Value>();
    } else if constexpr (std::is_same_v<Value, std::string>) {
      return text();
    } else {
      Value list;
      require(Kind::array, "array");
      for (const Json& item : *this) list.push_back(item.get<typename Value::value_type>());
      return list;
    }
  }
  template <JsonReadable Value>
  operator Value() const {
    return get<Value>();
  }

 private:
  struct Content;

  const char* kind_name() const;
  void require(Kind kind, const char* wanted) const;
  bool boolean() const;
  const std::string& text() const;
  const std::vector<Json>& items() const;
  const Json* find(std::string_view key) const;
  Content& own();
  template <class Number>
  Number number() const {
    if (kind_ == Kind::integer) return static_cast<Number>(number_.integer);
    if (kind_ == Kind::natural) return static_cast<Number>(number_.natural);
    require(Kind::real, "number");
    return static_cast<Number>(number_.real);
  }

  Kind kind_ = Kind::null;
  union {
    bool boolean;
    std::int64_t integer;
    std::uint64_t natural;
    double real;
  } number_{.natural = 0};
  std::shared_ptr<Content> content_;  ///< of a text, an array or an object
};

struct Json::Member {
  std::string name;
  Json value;
};

/// The text in quotes, as JSON writes it; nothing if it is not UTF-8.
std::optional<std::string> json_quoted(const std::string& text);

}  // namespace zeroproof
