#pragma once
// Rules that sort tensors into groups for any purpose: a rule has a name, globs in `match`, and
// `vectors`.

#include <algorithm>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "common/layout/flat_layout.hpp"
#include "common/step/tensor_match.hpp"

namespace zeroproof {

/// kind: "param group" or "clip group", for messages. Errors (ErrorCode::config): a rule without a name or with
/// the name of another one, or with neither match nor vectors.
template <class Rule>
void validate_group(const std::vector<Rule>& rules, std::size_t i, const std::string& kind) {
  const Rule& rule = rules[i];
  ZP_CHECK(!rule.name.empty(), ErrorCode::config,
           kind + " " + std::to_string(i + 1) + " has no name", "reports and errors name groups",
           "set one");
  ZP_CHECK(std::none_of(rules.begin(), rules.begin() + static_cast<std::ptrdiff_t>(i),
                        [&](const Rule& other) { return other.name == rule.name; }),
           ErrorCode::config, "two " + kind + "s have the name '" + rule.name + "'",
           "reports and errors name groups", "rename one of them");
  ZP_CHECK(!rule.match.empty() || rule.vectors, ErrorCode::config,
           kind + " '" + rule.name + "' has neither match nor vectors", "it matches no tensor",
           "list tensors in match, or set vectors = true");
}

/// The group of every tensor, [num_tensors]: i + 1 for the first rule i that matches it, else 0; empty without rules.
/// lost: "its limit". Errors (ErrorCode::config): a rule that matches no tensor, or only tensors of earlier rules.
template <class Rule>
std::vector<int> group_tensors(const std::vector<Rule>& rules, const FlatLayout& layout,
                               const std::string& kind, const std::string& lost) {
  std::vector<int> of_tensor;
  if (rules.empty()) return of_tensor;
  std::vector<bool> matched(rules.size());
  std::vector<bool> used(rules.size());
  for (const TensorSlot& tensor : layout.tensors()) {
    int group = 0;
    for (std::size_t i = 0; i < rules.size(); ++i) {
      if (!matches_tensor(rules[i].match, rules[i].vectors, tensor)) continue;
      matched[i] = true;
      if (group == 0) group = static_cast<int>(i) + 1;
    }
    if (group > 0) used[group - 1] = true;
    of_tensor.push_back(group);
  }
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const std::string problem = kind + " '" + rules[i].name + "' ";
    const std::string why = lost + " would have no effect";
    ZP_CHECK(matched[i], ErrorCode::config, problem + "matches no tensor", why,
             "compare match with the names of the model's tensors");
    ZP_CHECK(used[i], ErrorCode::config,
             problem + "gets no tensor: earlier groups match all of its tensors", why,
             "move it up, or narrow the groups before it");
  }
  return of_tensor;
}

}  // namespace zeroproof
