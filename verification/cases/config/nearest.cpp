#include "verification/cases/config/nearest.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace zeroproof {
namespace {

/// Names of other libraries, and those of this one.
constexpr std::pair<std::string_view, std::string_view> synonyms[] = {
    {"bfloat16", "bf16"},
    {"float16", "fp16"},
    {"half", "fp16"},
    {"float32", "fp32"},
    {"float", "fp32"},
    {"float8_e4m3fn", "e4m3"},
    {"float8_e5m2", "e5m2"},
    {"learning_rate", "lr"},
    {"epsilon", "eps"},
    {"max_grad_norm", "max_norm"},
    {"gradient_clipping", "max_norm"},
};

}  // namespace

std::string lower_case(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

std::size_t slips(std::string_view typed, std::string_view meant) {
  const std::size_t columns = meant.size() + 1;
  std::vector<std::size_t> before(columns);
  std::vector<std::size_t> above(columns);
  std::vector<std::size_t> row(columns);
  std::iota(above.begin(), above.end(), std::size_t{0});
  for (std::size_t i = 1; i <= typed.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j < columns; ++j) {
      const std::size_t replaced = above[j - 1] + (typed[i - 1] == meant[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, replaced});
      const bool swapped =
          i > 1 && j > 1 && typed[i - 1] == meant[j - 2] && typed[i - 2] == meant[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(above);
    above.swap(row);
  }
  return above.back();
}

std::string nearest(std::string_view word, const std::vector<std::string>& choices) {
  for (const auto& [theirs, ours] : synonyms) {
    if (word == theirs && std::ranges::count(choices, ours) > 0 &&
        std::ranges::count(choices, word) == 0)
      return std::string(ours);
  }
  // A beginning of one choice means that choice.
  for (const std::string& choice : choices) {
    if (word.size() >= 3 && choice.rfind(word, 0) == 0) return choice;
  }
  std::string best;
  std::size_t fewest = 0;
  for (const std::string& choice : choices) {
    const std::size_t count = slips(word, choice);
    const bool near = 3 * count <= std::max(word.size(), choice.size());
    if (!near || (!best.empty() && count >= fewest)) continue;
    best = choice;
    fewest = count;
  }
  return best;
}

std::string suggestion(std::string_view word, const std::vector<std::string>& choices,
                       const std::string& otherwise) {
  const std::string near = nearest(word, choices);
  if (!near.empty()) return "did you mean " + near + "?";
  if (!otherwise.empty()) return otherwise;
  std::string list = "use ";
  for (std::size_t i = 0; i < choices.size(); ++i) {
    list += (i == 0 ? "" : i + 1 == choices.size() ? " or " : ", ") + choices[i];
  }
  return list;
}

}  // namespace zeroproof
