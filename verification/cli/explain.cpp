#include <algorithm>
#include <cstdio>

#include "common/base/error.hpp"
#include "verification/cases/config/config.hpp"
#include "verification/cases/config/nearest.hpp"
#include "verification/cli/commands.hpp"
#include "verification/cli/explain/explain_text.hpp"
#include "verification/cli/program/contract_text.hpp"
#include "verification/cli/program/contract_version.hpp"
#include "verification/cli/program/document_text.hpp"
#include "verification/faults/catalogue.hpp"
#include "verification/interfaces/plugin/operations.hpp"
#include "verification/ops/op_case.hpp"

namespace zeroproof::verification {
namespace {

std::vector<std::string> phase_names(const std::vector<Phase>& phases) {
  std::vector<std::string> names;
  for (const Phase phase : phases) names.emplace_back(name(phase));
  return names;
}

/// The text for an operation without a doc block.
constexpr const char* fused_pass =
    "A fused pass of production: the bits of the phases it replaces (R17).";

/// The notes whose labels the doc block of a function type cites, each once.
std::vector<std::string> cited_notes(const std::string& type) {
  std::vector<std::string> notes;
  for (const std::string& line : doc_block(type)) {
    for (const Passage& label : labels()) {
      const bool cited = line.find("[" + label.name + "]") != std::string::npos;
      if (cited && std::ranges::find(notes, label.file) == notes.end()) notes.push_back(label.file);
    }
  }
  return notes;
}

/// Commands that judge another program's version of an operation.
std::string interfaces_of(const Op& op) {
  std::string out = labelled(
      "cases",
      {"zeroproof verify 'op/" + op.name + "/*'",
       "(" + std::to_string(op_cases("op/" + op.name + "/*").size()), "on", "this", "machine)"},
      "");
  if (!op.phases.empty())
    out += labelled("", {"zeroproof verify byte_gpt_tiny", "(as part of every step)"}, "");
  if (!is_plugin_operation(op.name)) return out;
  return out +
         labelled("judge yours", {"zeroproof verify " + op.name, "--plugin FILE.so", "(C, CUDA)"},
                  "") +
         labelled("", {"python3 -m zproof verify FILE.py:FUNCTION", "--op " + op.name}, "") +
         labelled(
             "",
             {"zeroproof gen " + op.name, "-o CALL", "(any language; then judge CALL", "RESULTS)"},
             "");
}

/// Inputs and variants of the cases, tests, notes, and faults of its phase.
std::string more_of(const Op& op, const std::vector<std::string>& tests, bool below_phase) {
  std::string out;
  std::vector<std::string> fills;
  for (const Fill fill : op.fills) fills.emplace_back(name(fill));
  out += labelled("inputs", fills, ",");
  if (op.variants.size() > 1) out += labelled("variants", op.variants, ",");
  if (!tests.empty()) out += labelled("tests", tests, ",");
  const std::vector<std::string> notes = cited_notes(op.type);
  if (!notes.empty()) out += labelled("notes", notes, ",");
  if (!op.phases.empty() && !below_phase)
    out += "  faults planted in this phase (zeroproof-faults):\n" + faults_of(op.phases);
  return out;
}

std::string explain_op(const Op& op, bool below_phase, bool all) {
  const std::string text =
      op.type.empty() ? wrapped({fused_pass}, explain_columns, "  ") : block_of(op.type);
  std::string out = heading((below_phase ? "operation " : "") + op.name) + "\n\n" + text + "\n";
  for (const std::string& type : referred_types(doc_block(op.type))) {
    if (type != op.type) out += heading(type) + " (referred to above)\n\n" + block_of(type) + "\n";
  }
  out += labelled("class", {std::string(name(op.exactness))}, "");
  out += labelled(
      "phase", op.phases.empty() ? std::vector<std::string>{"none"} : phase_names(op.phases), ",");
  out +=
      labelled("contract",
               {op.contract.empty() ? "common/CONTRACT.md, R17" : "common/contracts/" + op.contract,
                "(numeric", "contract", std::to_string(contract_version) + ")"},
               "");
  std::vector<std::string> sources, tests;
  for (const ImplementationFile& file : implementation_files()) {
    if (file.function != op.name) continue;
    (file.file.starts_with("tests/") ? tests : sources).push_back(file.file);
  }
  out += labelled("sources", sources, ",");
  out += interfaces_of(op);
  if (all) return out + more_of(op, tests, below_phase);
  return out + labelled("--all", words_of("adds inputs, variants, tests, notes and faults"), "");
}

/// A phase, an operation, or one after the other where both have the name; "" if neither has.
std::string explain_step_part(const std::string& what, bool all) {
  const auto phase = std::find_if(std::begin(all_phases), std::end(all_phases),
                                  [&](Phase one) { return name(one) == what; });
  const bool is_phase = phase != std::end(all_phases);
  const Op* const op = find_op(what);
  const std::string of_phase = is_phase ? explain_phase(*phase, all) : "";
  if (op == nullptr) return of_phase;
  return of_phase + (is_phase ? "\n" : "") + explain_op(*op, is_phase, all);
}

/// The first sentence of a doc block, or the paragraph if it goes on to an equation.
std::string first_sentence(const std::vector<std::string>& block) {
  std::string text;
  for (const std::string& line : block) {
    if (line.empty() || line.front() == ' ') break;
    text += (text.empty() ? "" : " ") + line;
  }
  const std::size_t end = text.find(". ");
  return end == std::string::npos ? text : text.substr(0, end + 1);
}

/// The operation and its description, in a separate column.
std::string line_of(const Op& op) {
  const std::vector<std::string> block = doc_block(op.type);
  const std::string indent(30, ' ');
  std::string text =
      wrapped({block.empty() ? fused_pass : first_sentence(block)}, explain_columns, indent);
  if (op.name.size() + 3 > indent.size()) return "  " + op.name + "\n" + text;
  return text.replace(2, op.name.size(), op.name);
}

std::vector<std::string> all_stages() { return {"stage0", "stage1", "stage2", "stage3"}; }

/// Every stage for "zero", one for "ZeRO-2"; none for other texts.
std::vector<std::string> zero_stages(const std::string& what) {
  const std::string word = lower_case(what);
  if (word == "zero") return all_stages();
  std::vector<std::string> one;
  for (const std::string& stage : all_stages()) {
    const std::string number = stage.substr(5);
    if (word == "zero" + number || word == "zero-" + number || word == "zero " + number)
      one.push_back(stage);
  }
  return one;
}

int explain_all() {
  std::string out = "A training step runs these phases; zeroproof explain NAME has the details.\n";
  for (const Phase phase : all_phases) {
    out += "\n" + heading(std::string(name(phase))) + "\n";
    for (const Op& op : all_ops()) {
      if (!op.phases.empty() && op.phases.front() == phase) out += line_of(op);
    }
    if (phase == Phase::gather) out += "  no operation: bytes are moved\n";
  }
  out += "\n" + heading("in no phase") + "\n";
  for (const Op& op : all_ops()) {
    if (op.phases.empty()) out += line_of(op);
  }
  out += "\n" + heading("another optimizer") + "\n" + lbfgs_line();
  out += "\n" + heading("and") + "\n" + labelled("stages", all_stages(), ",");
  std::vector<std::string> names;
  for (const Passage& rule : rules()) names.push_back(rule.name);
  out += labelled("rules", names, ",");
  out += labelled("updates", update_rule_names(), ",");
  names.clear();
  for (const Passage& label : labels()) names.push_back("[" + label.name + "]");
  out += labelled("labels", names, "");
  out += labelled("errata", {"zeroproof", "explain", "errata", "lists", "them"}, "");
  out += labelled("dialects", {"zeroproof", "explain", "dialects", "lists", "them"}, "");
  out += labelled("faults", {"zeroproof", "list", "--faults", "has", "their", "ids"}, "");
  std::fputs(out.c_str(), stdout);
  return 0;
}

int printed(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return 0;
}

/// Names of everything that can be explained.
std::vector<std::string> known_names() {
  std::vector<std::string> known;
  for (const Op& op : all_ops()) known.push_back(op.name);
  for (const Phase phase : all_phases) known.emplace_back(name(phase));
  known.insert(known.end(), {"lbfgs", "dialects", "errata"});
  for (const std::string& rule : update_rule_names()) known.push_back(rule);
  for (const std::string& stage : all_stages()) known.push_back(stage);
  for (const Fault& fault : fault_catalogue()) known.emplace_back(fault.id);
  for (const Passage& rule : rules()) known.push_back(rule.name);
  for (const Passage& label : labels()) known.push_back(label.name);
  for (const Erratum& erratum : errata())
    known.push_back("erratum " + std::to_string(erratum.number));
  return known;
}

/// The names that contain `what`.
std::vector<std::string> holding(const std::string& what, const std::vector<std::string>& known) {
  std::vector<std::string> close;
  for (const std::string& candidate : known) {
    if (what.size() >= 3 && candidate.find(what) != std::string::npos) close.push_back(candidate);
  }
  return close;
}

[[noreturn]] void refuse(const std::string& what) {
  std::vector<std::string> known = known_names();
  std::vector<std::string> close = zero_stages(what);
  if (close.empty()) close = holding(what, known);
  const std::vector<std::string> dialects = dialect_names();
  if (close.empty())
    close = holding(what, dialects);  // many have "adam" in them, which is an operation's
  known.insert(known.end(), dialects.begin(), dialects.end());
  const std::string near = nearest(what, known);
  if (close.empty() && !near.empty()) close = {near};
  std::string meant;
  for (std::size_t i = 0; i < close.size() && i < 5; ++i) meant += (i > 0 ? " or " : "") + close[i];
  fail(ErrorCode::config,
       "'" + what +
           "' is not an operation, phase, update rule, stage, dialect, rule, label, erratum or "
           "fault",
       "explain takes one of these",
       (meant.empty() ? "" : "did you mean " + meant + "? ") + "zeroproof explain lists all names");
}

int explain(const std::string& what, bool all) {
  if (const std::string part = explain_step_part(what, all); !part.empty()) return printed(part);
  ZP_CHECK(!all, ErrorCode::config,
           "--all was given " + (what.empty() ? "without a name" : "with '" + what + "'"),
           "only operations and phases have a short form", "leave it out");
  if (what.empty()) return explain_all();
  if (what == "lbfgs") return printed(explain_lbfgs());
  if (const std::string rule = explain_update_rule(what); !rule.empty()) return printed(rule);
  if (what == "errata") return printed(explain_errata());
  if (what == "dialects") return printed(explain_dialects());
  if (const std::string dialect = explain_dialect(what); !dialect.empty()) return printed(dialect);
  if (const Passage* rule = find_passage(rules(), what)) return printed(explain_rule(*rule));
  if (const Passage* label = find_passage(labels(), what)) return printed(explain_label(*label));
  if (const Erratum* erratum = erratum_named(what)) return printed(explain_erratum(*erratum));
  if (const Fault* fault = find_fault(what)) return printed(explain_fault(*fault));
  if (const auto stage = stage_named(what)) return printed(explain_stage(*stage));
  refuse(what);
}

}  // namespace

void add_explain(CommandSet& commands) {
  const Command command =
      commands.add("explain",
                   "print the contract of an operation, phase, update rule, stage, rule or label, "
                   "the formulas of a dialect, "
                   "the error in a claim, and the effect of a fault (no name: list all)");
  const auto words = std::make_shared<std::vector<std::string>>();
  command.words(
      "name", *words,
      "an operation (adamw_update), a phase (update), an update rule (muon), lbfgs, a stage "
      "(stage2), dialects, a dialect "
      "(torch-cpu-fused), a rule (R12), a label (ZeRO:local), errata, an erratum (erratum 46) or a "
      "fault "
      "(double-unscale)");
  const auto all = std::make_shared<bool>(false);
  command.flag("--all", *all,
               "also inputs, variants, tests, notes and faults of an operation, faults of a phase");
  command.runs([words, all] {
    std::string what;
    for (const std::string& word : *words) what += (what.empty() ? "" : " ") + word;
    return explain(what, *all);
  });
}

}  // namespace zeroproof::verification
