#include "verification/tools/quantize/yaml_value.hpp"

#include <algorithm>
#include <charconv>

#include "common/base/error.hpp"
#include "common/io/safetensors/safetensors_types.hpp"
#include "verification/cases/config/nearest.hpp"

namespace zeroproof {
namespace {

std::size_t digits(std::string_view text, std::size_t at) {
  std::size_t count = 0;
  while (at + count < text.size() && text[at + count] >= '0' && text[at + count] <= '9') ++count;
  return count;
}

/// -12: no sign but a minus, no zero in front.
bool is_integer(std::string_view text) {
  const std::size_t begin = text.substr(0, 1) == "-" ? 1 : 0;
  const std::size_t count = digits(text, begin);
  return count > 0 && begin + count == text.size() && (count == 1 || text[begin] != '0');
}

/// -12.5, 1.0e-4: digits on both sides of a point, and an exponent that has a sign.
bool is_real(std::string_view text) {
  std::size_t at = text.substr(0, 1) == "-" ? 1 : 0;
  const std::size_t whole = digits(text, at);
  const bool has_whole = whole == 1 || (whole > 1 && text[at] != '0');
  at += whole;
  if (!has_whole || text.substr(at, 1) != ".") return false;
  const std::size_t part = digits(text, ++at);
  at += part;
  if (part == 0) return false;
  if (at == text.size()) return true;
  if (text[at] != 'e' && text[at] != 'E') return false;
  if (text.substr(at + 1, 1) != "+" && text.substr(at + 1, 1) != "-") return false;
  const std::size_t exponent = digits(text, at + 2);
  return exponent > 0 && at + 2 + exponent == text.size();
}

/// 1 without a point if it is whole.
std::string plain(double number) {
  std::string text = std::to_string(number);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

}  // namespace

bool is_no_text(std::string_view text) {
  static const std::vector<std::string> words = {"",   "~",  "null", "true",  "false", "yes",
                                                 "no", "on", "off",  "y",     "n",     ".nan",
                                                 "=",  "<<", ".inf", "-.inf", "+.inf"};
  if (std::find(words.begin(), words.end(), lower_case(std::string(text))) != words.end())
    return true;
  if (text[0] == ':' || text[0] == '?') return true;  // some readers treat it as a mark
  // Numbers, dates and times of any version begin with a digit, a sign or a point and have a digit.
  const bool begins =
      text[0] == '+' || text[0] == '-' || text[0] == '.' || (text[0] >= '0' && text[0] <= '9');
  return begins &&
         text.find_first_not_of("0123456789+-._:eExXoObBaAcCdDfFtTzZ ") == std::string_view::npos &&
         text.find_first_of("0123456789") != std::string_view::npos;
}

std::string any_of_names(Span<const std::string_view> names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += std::string(i == 0                  ? ""
                        : i + 1 == names.size() ? " or "
                                                : ", ") +
            std::string(names[i]);
  }
  return text;
}

std::string YamlValue::shown() const {
  switch (node.kind) {
    case YamlNode::Kind::nothing:
      return "nothing";
    case YamlNode::Kind::list:
      return "a list";
    case YamlNode::Kind::map:
      return "a map";
    case YamlNode::Kind::scalar:
      break;
  }
  if (node.text.size() > 80) return shown_name(node.text);  // which omits the rest
  return node.quoted ? "\"" + node.text + "\"" : node.text;
}

void YamlValue::reject(const std::string& expected, const std::string& offer) const {
  fail(ErrorCode::config, place() + ": " + key + " is " + shown(), "that is not " + expected,
       offer.empty() ? "write " + expected : offer);
}

bool YamlValue::boolean() const {
  const std::string word = node.quoted ? "" : lower_case(node.text);
  if (node.kind != YamlNode::Kind::scalar || (word != "true" && word != "false"))
    reject("true or false");
  return word == "true";
}

std::int64_t YamlValue::integer(std::int64_t low, std::int64_t high) const {
  const std::string expected =
      "an integer from " + std::to_string(low) + " to " + std::to_string(high);
  std::int64_t value = 0;
  const char* const end = node.text.data() + node.text.size();
  if (node.kind != YamlNode::Kind::scalar || node.quoted || !is_integer(node.text))
    reject(expected);
  const auto [rest, error] = std::from_chars(node.text.data(), end, value);
  if (error != std::errc{} || rest != end || value < low || value > high) reject(expected);
  return value;
}

double YamlValue::number(double low, double high) const {
  const std::string expected =
      "a number from " + plain(low) + " to " + plain(high) + " such as 0.5 or 1.0e-4";
  double value = 0;
  const char* const end = node.text.data() + node.text.size();
  const bool reads = node.kind == YamlNode::Kind::scalar && !node.quoted;
  if (!reads) reject(expected);
  const auto [rest, error] = std::from_chars(node.text.data(), end, value);
  if (error == std::errc{} && rest == end && !is_integer(node.text) && !is_real(node.text)) {
    fail(ErrorCode::config, place() + ": " + key + " is " + shown(),
         "some readers of YAML take that for a text, or for another number",
         "write it with a point, and a sign before the exponent, such as 0.5 or 1.0e-4");
  }
  if (error != std::errc{} || rest != end || !(value >= low && value <= high)) reject(expected);
  return value;
}

std::string YamlValue::text() const {
  const bool reads = node.kind == YamlNode::Kind::scalar && (node.quoted || !is_no_text(node.text));
  if (!reads || node.text.empty()) {
    reject("a text to every reader of YAML",
           node.kind == YamlNode::Kind::scalar && !node.text.empty()
               ? "put " + shown() + " in quotation marks"
               : "write one");
  }
  return node.text;
}

std::size_t YamlValue::name(Span<const std::string_view> names) const {
  std::vector<std::string> choices;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (node.kind == YamlNode::Kind::scalar && node.text == names[i]) return i;
    choices.emplace_back(names[i]);
  }
  const std::string near = nearest(node.text, choices);
  reject(any_of_names(names), near.empty() ? "" : "did you mean " + near + "?");
}

const YamlNode& YamlValue::map() const {
  if (node.kind != YamlNode::Kind::map)
    reject("a map", "write its fields below it, each behind blanks");
  return node;
}

const YamlNode& YamlValue::list() const {
  if (node.kind != YamlNode::Kind::list) reject("a list", "write an entry behind each - below it");
  return node;
}

void refuse_unknown_keys(const YamlNode& map, const std::string& file, const std::string& prefix,
                         const std::vector<std::string>& known) {
  for (const YamlMember& member : map.members) {
    if (std::find(known.begin(), known.end(), member.key) != known.end()) continue;
    fail(ErrorCode::config,
         file + ":" + std::to_string(member.line) + ": there is no field " + prefix +
             shown_name(member.key),
         "it would have no effect", suggestion(member.key, known));
  }
}

}  // namespace zeroproof
