#include "verification/cases/id_pattern.hpp"

#include <algorithm>
#include <charconv>

#include "common/base/error.hpp"
#include "verification/cases/config/nearest.hpp"

namespace zeroproof::verification {
std::vector<std::string> id_parts(const std::string& id) {
  std::vector<std::string> parts(1);
  for (const char c : id) {
    if (c == '/') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

std::optional<std::int64_t> number_after(const std::string& part, std::string_view prefix) {
  if (part.rfind(prefix, 0) != 0) return std::nullopt;
  std::int64_t value = 0;
  const char* begin = part.data() + prefix.size();
  const char* end = part.data() + part.size();
  const auto [rest, error] = std::from_chars(begin, end, value);
  if (error != std::errc{} || rest != end || begin == end) return std::nullopt;
  return value;
}

bool is_wild(const std::string& pattern) {
  return pattern.find_first_of("*?") != std::string::npos;
}

bool matches(const std::string& pattern, const std::string& id) {
  if (!is_wild(pattern)) return id.find(pattern) != std::string::npos;
  std::size_t p = 0;
  std::size_t i = 0;
  std::size_t star = std::string::npos;
  std::size_t resume = 0;
  while (i < id.size()) {
    if (p < pattern.size() && (pattern[p] == id[i] || pattern[p] == '?')) {
      ++p;
      ++i;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = i;
    } else if (star != std::string::npos) {
      p = star + 1;
      i = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool begins_with(const std::string& pattern, const std::string& word) {
  return pattern == word || pattern.rfind(word + "/", 0) == 0;
}

void check_parts(const std::string& pattern, const IdGrammar& grammar, bool prefix) {
  const std::vector<std::string> parts = id_parts(pattern);
  for (std::size_t i = 0; i < std::min(parts.size(), grammar.size()); ++i) {
    if (is_wild(parts[i]) || (parts[i].empty() && i + 1 == parts.size())) return;
    const std::vector<std::string> known =
        grammar[i].known({parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(i)});
    const std::string word =
        grammar[i].with_settings ? parts[i].substr(0, parts[i].find('+')) : parts[i];
    const bool last = prefix && i + 1 == parts.size();
    const auto fits = [&](const std::string& text) {
      return text == word || (last && text.starts_with(word));
    };
    if (known.empty() || std::any_of(known.begin(), known.end(), fits)) continue;
    fail(ErrorCode::config, grammar[i].what + " '" + word + "' does not exist",
         "no case has such an id",
         suggestion(word, known, known.size() > 8 ? "zeroproof list shows ids" : ""));
  }
}

std::vector<std::string> select_ids(const std::string& pattern, const IdGrammar& grammar,
                                    const std::function<std::vector<std::string>()>& usual) {
  const std::vector<std::string> parts = id_parts(pattern);
  const bool wild = is_wild(pattern);
  check_parts(pattern, grammar);
  if (!wild && parts.size() == grammar.size() && !parts.back().empty()) return {pattern};
  const std::string first_parts =
      pattern.empty() || pattern.back() == '/' ? pattern : pattern + "/";
  std::vector<std::string> selected;
  for (const std::string& id : usual()) {
    if (wild ? matches(pattern, id) : id.rfind(first_parts, 0) == 0) selected.push_back(id);
  }
  return selected;
}

}  // namespace zeroproof::verification
