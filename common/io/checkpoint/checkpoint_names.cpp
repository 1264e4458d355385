#include "common/io/checkpoint/checkpoint_names.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <random>

namespace zeroproof {
namespace {

constexpr std::string_view step_prefix = "step-";
constexpr std::size_t least_digits = 8;
constexpr std::string_view unfinished_mark = ".tmp-";

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_character(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '_' ||
         c == '-';
}

}  // namespace

std::string checkpoint_name(std::int64_t step) {
  std::string digits = std::to_string(step);
  if (digits.size() < least_digits) digits.insert(0, least_digits - digits.size(), '0');
  return std::string(step_prefix) + digits;
}

std::optional<std::int64_t> parse_checkpoint_name(std::string_view name) {
  if (name.substr(0, step_prefix.size()) != step_prefix) return std::nullopt;
  const std::string_view digits = name.substr(step_prefix.size());
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (error != std::errc() || end != digits.data() + digits.size() || checkpoint_name(step) != name)
    return std::nullopt;
  return step;
}

std::string unfinished_name(std::int64_t step, std::string_view nonce) {
  return std::string(".") + checkpoint_name(step) + std::string(unfinished_mark) +
         std::string(nonce);
}

bool is_unfinished_name(std::string_view name) {
  const std::size_t mark = name.find(unfinished_mark);
  return !name.empty() && name[0] == '.' && mark != std::string_view::npos &&
         parse_checkpoint_name(name.substr(1, mark - 1)).has_value();
}

bool is_checkpoint_file_name(std::string_view name) {
  return !name.empty() && name.size() <= 128 && name[0] != '.' &&
         std::all_of(name.begin(), name.end(), is_name_character);
}

std::string make_nonce() {
  std::random_device random;
  const std::uint64_t mixed = (std::uint64_t{random()} << 32 | random()) ^
                              static_cast<std::uint64_t>(::getpid()) * 0x9E3779B97F4A7C15U;
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(mixed));
  return text;
}

}  // namespace zeroproof
