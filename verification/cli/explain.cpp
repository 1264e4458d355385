#include <algorithm>
#include <cstdio>

#include "common/base/error.hpp"
#include "common/step/config.hpp"
#include "cuda/faults/catalogue.hpp"
#include "verification/cli/commands.hpp"
#include "verification/cli/explain_text.hpp"
#include "verification/contract_text.hpp"
#include "verification/contract_version.hpp"
#include "verification/ops/op_case.hpp"

namespace zeroproof::verification {
namespace {

std::vector<std::string> phase_names(const std::vector<Phase>& phases) {
  std::vector<std::string> names;
  for (const Phase phase : phases) names.emplace_back(name(phase));
  return names;
}

std::string faults_of(const std::vector<Phase>& phases) {
  std::string out;
  for (const cuda::Fault& fault : cuda::fault_catalogue()) {
    if (std::find(phases.begin(), phases.end(), fault.phase) == phases.end()) continue;
    out += fault_text(fault);
  }
  return out.empty() ? "    none\n" : out;
}

int explain_op(const Op& op) {
  std::string out = heading(op.name) + "\n\n" + block_of(op.type) + "\n";
  for (const std::string& type : referred_types(doc_block(op.type))) {
    if (type != op.type) out += heading(type) + " (referred to above)\n\n" + block_of(type) + "\n";
  }
  out += labelled("class", {std::string(name(op.exactness))}, "");
  out +=
      labelled("phase", op.phases.empty() ? std::vector<std::string>{"none"} : phase_names(op.phases), ",");
  out += labelled(
      "contract",
      {"common/contracts/" + op.contract, "(numeric", "contract", std::to_string(contract_version) + ")"},
      "");
  std::vector<std::string> twins;
  for (const TwinFile& twin : twin_files()) {
    if (twin.function == op.name) twins.push_back(twin.file);
  }
  out += labelled("twins", twins, ",");
  std::vector<std::string> fills;
  for (const Fill fill : op.fills) fills.emplace_back(name(fill));
  out += labelled("inputs", fills, ",");
  if (op.variants.size() > 1) out += labelled("variants", op.variants, ",");
  out += labelled("cases",
                  {"zeroproof verify 'op/" + op.name + "/*'",
                   "(" + std::to_string(op_cases("op/" + op.name + "/*").size()), "on", "this", "machine)"},
                  "");
  if (!op.phases.empty()) {
    out += labelled("", {"zeroproof verify byte_gpt_tiny", "(as part of every step)"}, "");
    out += "  faults planted in this phase (zeroproof-faults):\n" + faults_of(op.phases);
  }
  std::fputs(out.c_str(), stdout);
  return 0;
}

int explain_phase(Phase phase) {
  std::string out = heading("phase " + std::string(name(phase))) + "\n\n";
  std::vector<std::string> ops;
  for (const Op& op : all_ops()) {
    if (std::find(op.phases.begin(), op.phases.end(), phase) != op.phases.end()) ops.push_back(op.name);
  }
  if (ops.empty()) ops = {"none:", "bytes", "are", "moved"};
  out += labelled("operations", ops, ops.front() == "none:" ? "" : ",");
  out += labelled("on overflow", {skipped_on_overflow(phase) ? "not entered (R6)" : "runs"}, "");
  out += "  faults planted in this phase (zeroproof-faults):\n" + faults_of({phase});
  std::fputs(out.c_str(), stdout);
  return 0;
}

/// The operation and the first line of its doc block.
std::string line_of(const Op& op) {
  const std::vector<std::string> block = doc_block(op.type);
  std::string line = op.name;
  line.resize(std::max<std::size_t>(28, line.size() + 1), ' ');
  line += block.empty() ? "" : block.front();
  if (line.size() > explain_columns - 2) line = line.substr(0, line.rfind(' ', explain_columns - 6)) + " ...";
  return "  " + line + "\n";
}

int explain_all() {
  std::string out = "A training step runs these phases; zeroproof explain NAME has the details.\n";
  for (const Phase phase : all_phases) {
    out += "\n" + heading(std::string(name(phase))) + "\n";
    for (const Op& op : all_ops()) {
      if (!op.phases.empty() && op.phases.front() == phase) out += line_of(op);
    }
  }
  out += "\n" + heading("in no phase") + "\n";
  for (const Op& op : all_ops()) {
    if (op.phases.empty()) out += line_of(op);
  }
  out += "\n" + heading("another optimizer") + "\n" + lbfgs_line();
  std::fputs(out.c_str(), stdout);
  return 0;
}

int explain(const std::string& what) {
  if (what.empty()) return explain_all();
  if (const Op* op = find_op(what)) return explain_op(*op);
  for (const Phase phase : all_phases) {
    if (name(phase) == what) return explain_phase(phase);
  }
  if (what == "lbfgs") {
    std::fputs(explain_lbfgs().c_str(), stdout);
    return 0;
  }
  std::vector<std::string> close;
  std::vector<std::string> known;
  for (const Op& op : all_ops()) known.push_back(op.name);
  for (const Phase phase : all_phases) known.emplace_back(name(phase));
  known.emplace_back("lbfgs");
  for (const std::string& candidate : known) {
    if (candidate.find(what) != std::string::npos) close.push_back(candidate);
  }
  if (close.empty()) close = {nearest(what, known)};
  std::string meant;
  for (std::size_t i = 0; i < close.size() && i < 5; ++i) meant += (i > 0 ? " or " : "") + close[i];
  fail(ErrorCode::config, "'" + what + "' is no operation and no phase", "there is nothing to explain",
       "did you mean " + meant + "? zeroproof explain lists them all");
}

}  // namespace

void add_explain(CLI::App& app, std::function<int()>& chosen) {
  CLI::App* command = app.add_subcommand(
      "explain",
      "the contract of an operation or phase, its twins, cases and faults (without a name: all of them)");
  const auto what = std::make_shared<std::string>();
  command->add_option("name", *what, "an operation, such as adamw_update, a phase, such as update, or lbfgs");
  command->callback([what, &chosen] { chosen = [what] { return explain(*what); }; });
}

}  // namespace zeroproof::verification
