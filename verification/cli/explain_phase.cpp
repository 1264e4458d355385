// zeroproof explain update: what a phase makes of what, in the contract's words.

#include <algorithm>
#include <set>

#include "verification/cli/explain_text.hpp"
#include "verification/ops/op.hpp"
#include "verification/program/contract_text.hpp"

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

/// The part of a doc block that says in which order what is computed; none if it has none.
std::vector<std::string> order_of(const std::vector<std::string>& block) {
  constexpr std::string_view label = "Order    ";
  std::vector<std::string> lines;
  for (const std::string& line : block) {
    const bool begins = line.rfind(label, 0) == 0;
    if (!begins && lines.empty()) continue;
    if (!begins && line.rfind(std::string(label.size(), ' '), 0) != 0) break;
    lines.push_back(line);
  }
  return lines;
}

std::string formulas_of(Phase phase) {
  std::string out;
  std::set<std::string> shown;  // operations of one type share a block
  for (const Op& op : all_ops()) {
    if (std::find(op.phases.begin(), op.phases.end(), phase) == op.phases.end()) continue;
    const std::vector<std::string> order = order_of(doc_block(op.type));
    if (order.empty() || !shown.insert(op.type).second) continue;
    out += "    " + op.name + "\n" + wrapped(order, explain_columns, "    ");
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

std::string explain_phase(Phase phase) {
  std::string out = heading("phase " + std::string(name(phase))) + "\n\n";
  std::vector<std::string> ops;
  for (const Op& op : all_ops()) {
    if (std::find(op.phases.begin(), op.phases.end(), phase) != op.phases.end()) ops.push_back(op.name);
  }
  if (ops.empty()) ops = {"none:", "bytes", "are", "moved"};
  out += labelled("makes", words_of(value_of_phase(phase) + " [R6]"), "");
  out += labelled("operations", ops, ops.front() == "none:" ? "" : ",");
  out += labelled("on overflow", {skipped_on_overflow(phase) ? "not entered (R6)" : "runs"}, "");
  return out + formulas_of(phase) + "  faults planted in this phase (zeroproof-faults):\n" +
         faults_of({phase});
}

}  // namespace zeroproof::verification
