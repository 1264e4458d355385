#include "verification/report/failure_blocks.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace zeroproof::verification {
namespace {

constexpr std::size_t columns = 100;

std::string cause_of(const Result& result) {
  return result.divergence && !result.divergence->buffer.empty() ? result.divergence->buffer
                                                                 : result.reason;
}

bool same_cause(const Result& a, const Result& b) {
  if (a.training || b.training) return false;  // runs with different settings stay separate
  return std::tie(a.suite, a.group, a.status) == std::tie(b.suite, b.group, b.status) &&
         cause_of(a) == cause_of(b);
}

/// The last part of an id, without "fill:".
std::string last_part(const std::string& id) {
  const std::string part = id.substr(id.rfind('/') + 1);
  return part.rfind("fill:", 0) == 0 ? part.substr(5) : part;
}

}  // namespace

std::vector<FailureBlock> failure_blocks(const std::vector<Result>& results) {
  std::vector<FailureBlock> blocks;
  for (const Result& result : results) {
    if (!failed(result.status)) continue;
    const auto block = std::find_if(blocks.begin(), blocks.end(), [&](const FailureBlock& other) {
      return same_cause(*other.front(), result);
    });
    (block == blocks.end() ? blocks.emplace_back() : *block).push_back(&result);
  }
  return blocks;
}

std::string repeat_lines(const FailureBlock& block) {
  std::vector<std::pair<std::string, std::vector<std::string>>> sides;
  for (std::size_t i = 1; i < block.size(); ++i) {
    const auto same = [&](const auto& side) { return side.first == block[i]->side; };
    auto side = std::find_if(sides.begin(), sides.end(), same);
    if (side == sides.end()) side = sides.insert(side, {block[i]->side, {}});
    const std::string part = last_part(block[i]->id);
    auto& parts = side->second;
    if (std::find(parts.begin(), parts.end(), part) == parts.end()) parts.push_back(part);
  }
  if (sides.empty()) return "";
  std::string line =
      "  also in   " + std::to_string(block.size() - 1) + " more of " + block.front()->group + ":";
  std::string out;
  for (const auto& [side, parts] : sides) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const bool last = i + 1 == parts.size();
      const bool end = last && side == sides.back().first;
      const std::string word = (i == 0 && !side.empty() ? side + " " : "") + parts[i] +
                               (end    ? ""
                                : last ? ";"
                                       : ",");
      if (line.size() + 1 + word.size() > columns) {
        out += line + "\n";
        line = std::string(11, ' ');
      }
      line += " " + word;
    }
  }
  return out + line + "\n";
}

}  // namespace zeroproof::verification
