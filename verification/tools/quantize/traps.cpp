// Rules that appear correct in a file but are not: reported, not refused, as they may be intended.

#include <algorithm>
#include <optional>
#include <set>

#include "common/base/printable.hpp"
#include "common/io/safetensors/safetensors_types.hpp"
#include "verification/tools/quantize/assignment.hpp"
#include "verification/tools/quantize/glob.hpp"

namespace zeroproof {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// The number that has a digit at `at`.
std::string number_at(const std::string& path, std::size_t at) {
  std::size_t begin = at, end = at;
  while (begin > 0 && is_digit(path[begin - 1])) --begin;
  while (end < path.size() && is_digit(path[end])) ++end;
  return path.substr(begin, end - begin);
}

/// A piece of a pattern between wildcards that ends, or begins, in digits beside a *.
struct Piece {
  std::size_t begin = 0, end = 0;  ///< in the pattern
  bool star_behind = false;        ///< the digits are its last characters; else its first
  std::string number;              ///< these digits
};

/// [Quant:digits]
std::vector<Piece> pieces_of(const std::string& pattern) {
  const std::vector<bool> wild = wildcard_bytes(pattern);
  std::vector<Piece> pieces;
  for (std::size_t begin = 0; begin < pattern.size();) {
    std::size_t end = begin;
    while (end < pattern.size() && !wild[end]) ++end;
    if (end > begin && end < pattern.size() && pattern[end] == '*' && is_digit(pattern[end - 1]))
      pieces.push_back({begin, end, true, number_at(pattern, end - 1)});
    if (end > begin && begin > 0 && pattern[begin - 1] == '*' && is_digit(pattern[begin]))
      pieces.push_back({begin, end, false, number_at(pattern, begin)});
    begin = end + 1;
  }
  return pieces;
}

/// The longer number that contains the piece's; nothing if the piece's number also occurs alone, or
/// does not occur.
std::optional<std::string> swallowed(const std::string& path, const std::string& text,
                                     bool star_behind) {
  std::optional<std::string> number;
  for (std::size_t at = path.find(text); at != std::string::npos; at = path.find(text, at + 1)) {
    const std::size_t behind = at + text.size();
    const bool longer = star_behind ? behind < path.size() && is_digit(path[behind])
                                    : at > 0 && is_digit(path[at - 1]);
    if (!longer) return std::nullopt;
    if (!number) number = number_at(path, star_behind ? behind : at - 1);
  }
  return number;
}

struct Matched {
  std::vector<const TensorQuantization*> all, trapped;
  std::set<std::string> numbers;
};

/// The same pattern with the text beside the number in the intended paths, if it matches those
/// alone.
std::string narrower(const std::string& pattern, const Piece& piece, const Matched& matched) {
  std::string candidate = pattern;
  if (piece.star_behind) {
    candidate.insert(piece.end, 1, '.');
  } else {
    for (const TensorQuantization* tensor : matched.all) {
      const std::string text = pattern.substr(piece.begin, piece.end - piece.begin);
      if (swallowed(tensor->path, text, false)) continue;
      const std::size_t at = tensor->path.find(text);
      const std::size_t point = at == 0 ? std::string::npos : tensor->path.rfind('.', at - 1);
      const std::size_t begin = point == std::string::npos ? 0 : point + 1;
      candidate.insert(piece.begin, tensor->path.substr(begin, at - begin));
      break;
    }
  }
  const Glob glob(candidate);
  std::size_t taken = 0;
  for (const TensorQuantization* tensor : matched.all) {
    const bool is_trapped =
        std::find(matched.trapped.begin(), matched.trapped.end(), tensor) != matched.trapped.end();
    if (glob.matches(tensor->path) == is_trapped) return "";
    taken += is_trapped ? 0 : 1;
  }
  return taken > 0 && candidate != pattern ? candidate : "";
}

/// The text of a piece in front of its number: "layers." of model.layers.1, "block" of block1.
std::string stem_of(const std::string& text, const Piece& piece) {
  if (!piece.star_behind) return "";
  const std::string before = text.substr(0, text.size() - piece.number.size());
  const std::size_t point =
      before.size() < 2 ? std::string::npos : before.rfind('.', before.size() - 2);
  return before.substr(point == std::string::npos ? 0 : point + 1);
}

std::string listed_numbers(const std::set<std::string>& numbers, const std::string& stem) {
  std::vector<std::string> sorted(numbers.begin(), numbers.end());
  std::sort(sorted.begin(), sorted.end(), [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  });
  std::string text;
  for (std::size_t i = 0; i < sorted.size() && i < 4; ++i)
    text += (i == 0 ? "" : ", ") + stem + sorted[i];
  return sorted.size() > 4 ? text + " and " + std::to_string(sorted.size() - 4) + " more" : text;
}

void find_swallowed(const QuantizationConfig& config, const QuantizationAssignment& made,
                    std::size_t rule, std::vector<QuantTrap>& traps) {
  const QuantRule& r = config.rules[rule];
  for (const Piece& piece : pieces_of(r.pattern)) {
    const std::string text = r.pattern.substr(piece.begin, piece.end - piece.begin);
    Matched matched;
    for (const TensorQuantization& tensor : made.tensors) {
      if (std::find(tensor.matching.begin(), tensor.matching.end(), rule) == tensor.matching.end())
        continue;
      matched.all.push_back(&tensor);
      const std::optional<std::string> number = swallowed(tensor.path, text, piece.star_behind);
      if (!number) continue;
      matched.trapped.push_back(&tensor);
      matched.numbers.insert(*number);
    }
    if (matched.trapped.empty()) continue;
    const std::string fix = narrower(r.pattern, piece, matched);
    const std::string stem = stem_of(text, piece);
    const std::string meant = printable(stem + piece.number);
    traps.push_back({rule, r.pattern_line,
                     shown_name(r.pattern) + " takes " +
                         printable(listed_numbers(matched.numbers, stem)) + " besides " + meant +
                         ", for * takes digits too: " + std::to_string(matched.trapped.size()) +
                         " of its " + std::to_string(matched.all.size()) + " tensors, first " +
                         shown_name(matched.trapped.front()->tensor) + "; " +
                         (fix.empty() ? "end the number in the pattern, if that is not meant"
                                      : shown_name(fix) + " takes " + meant + " alone")});
  }
}

}  // namespace

std::vector<QuantTrap> find_traps(const QuantizationConfig& config,
                                  const QuantizationAssignment& made) {
  std::vector<QuantTrap> traps;
  const bool megatron = config.semantics == QuantSemantics::megatron;
  for (std::size_t rule = 0; rule < config.rules.size(); ++rule) {
    const QuantRule& r = config.rules[rule];
    if (r.takes_part()) find_swallowed(config, made, rule, traps);
    if (megatron && !r.enable)
      traps.push_back({rule, r.line,
                       shown_name(r.name) + " is off: enabled is not given, and false then; write "
                                            "enabled: true"});
  }
  for (const QuantConfigEntry& entry : config.configs) {
    if (!entry.used)
      traps.push_back({std::nullopt, entry.line,
                       "config " + shown_name(entry.name) + " is used by no matcher that is on"});
  }
  std::vector<std::string> untouched;
  for (const TensorQuantization& tensor : made.tensors) {
    if (tensor.matching.empty()) untouched.push_back(tensor.tensor);
  }
  if (!megatron && !untouched.empty()) {
    traps.push_back({std::nullopt, 0,
                     std::to_string(untouched.size()) + " tensors match no entry, first " +
                         shown_name(untouched.front()) +
                         ": they stay as they are here, but ModelOpt's quantizers are on from the "
                         "start, with its own "
                         "defaults; begin the list with quantizer_path: \"*\" and enable: false"});
  }
  return traps;
}

}  // namespace zeroproof
