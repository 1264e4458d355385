// zeroproof explain update: inputs, results and formulas of a phase, in the contract's words.

#include <algorithm>
#include <utility>

#include "verification/cli/explain/explain_text.hpp"
#include "verification/cli/program/contract_text.hpp"
#include "verification/ops/op.hpp"

namespace zeroproof::verification {
namespace {

/// The value of the phase, from the table of R6, without the marks of Markdown.
std::string value_of_phase(Phase phase) {
  const std::string row = "| " + std::string(name(phase)) + " | ";
  for (const std::string& line : find_passage(rules(), "R6")->lines) {
    if (line.rfind(row, 0) != 0) continue;
    std::string value = line.substr(row.size(), line.rfind(" |") - row.size());
    std::erase(value, '`');
    return value;
  }
  return {};
}

/// The part of a doc block with this label; none if it has none.
std::vector<std::string> part_of(const std::vector<std::string>& block, const std::string& label) {
  constexpr std::size_t column = 9;
  std::vector<std::string> lines;
  for (const std::string& line : block) {
    const bool begins = line.rfind(label + " ", 0) == 0;
    if (!begins && lines.empty()) continue;
    if (!begins && line.rfind(std::string(column, ' '), 0) != 0) break;
    lines.push_back(line);
  }
  return lines;
}

/// The part of a doc block about the computation of its value: the order, or else the first
/// paragraph and the result.
std::vector<std::string> formula_of(const std::vector<std::string>& block) {
  const std::vector<std::string> order = part_of(block, "Order");
  if (!order.empty() && order.front().find(" none: ") == std::string::npos) return order;
  std::vector<std::string> lines(block.begin(), std::find(block.begin(), block.end(), ""));
  for (const std::vector<std::string>& part : {order, part_of(block, "Returns")}) {
    lines.insert(lines.end(), part.begin(), part.end());
  }
  return lines;
}

std::string formulas_of(Phase phase) {
  std::vector<std::pair<std::string, std::vector<std::string>>>
      shown;  // functions may share a block
  for (const Op& op : all_ops()) {
    const std::vector<std::string> block = doc_block(op.type);
    if (std::find(op.phases.begin(), op.phases.end(), phase) == op.phases.end() || block.empty())
      continue;
    const auto same = std::find_if(shown.begin(), shown.end(),
                                   [&](const auto& one) { return one.second == block; });
    if (same == shown.end()) {
      shown.emplace_back(op.name, block);
    } else {
      same->first += ", " + op.name;
    }
  }
  std::string out;
  for (const auto& [names, block] : shown) {
    out += "    " + names + "\n" + wrapped(formula_of(block), explain_columns, "      ");
  }
  return out.empty() ? "" : "  formulas, from common/contracts:\n" + out;
}

}  // namespace

std::string faults_of(const std::vector<Phase>& phases) {
  std::string out;
  for (const Fault& fault : fault_catalogue()) {
    if (std::find(phases.begin(), phases.end(), fault.phase) == phases.end()) continue;
    out += fault_text(fault);
  }
  return out.empty() ? "    none\n" : out;
}

std::string explain_phase(Phase phase, bool all) {
  std::string out = heading("phase " + std::string(name(phase))) + "\n\n";
  std::vector<std::string> ops;
  for (const Op& op : all_ops()) {
    if (std::find(op.phases.begin(), op.phases.end(), phase) != op.phases.end())
      ops.push_back(op.name);
  }
  if (ops.empty()) ops = {"none:", "bytes", "are", "moved"};
  out += labelled("makes", words_of(value_of_phase(phase) + " [R6]"), "");
  out += labelled("operations", ops, ops.front() == "none:" ? "" : ",");
  out += labelled("on overflow", {skipped_on_overflow(phase) ? "not entered (R6)" : "runs"}, "");
  out += formulas_of(phase);
  if (!all) return out + labelled("--all", words_of("adds the faults planted in this phase"), "");
  return out + "  faults planted in this phase (zeroproof-faults):\n" + faults_of({phase});
}

}  // namespace zeroproof::verification
