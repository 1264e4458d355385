// zeroproof explain muon: an update rule by its state, operations, settings, recipes and cases.

#include <algorithm>

#include "common/contracts/newton_schulz.hpp"
#include "common/contracts/update_rule.hpp"
#include "common/step/state_buffers.hpp"
#include "verification/cases/config/config.hpp"
#include "verification/cases/recipes.hpp"
#include "verification/cli/explain/explain_text.hpp"
#include "verification/cli/program/contract_text.hpp"
#include "verification/ops/op.hpp"
#include "verification/report/format.hpp"

namespace zeroproof::verification {
namespace {

/// "sgd" is not the rule of sgd_ema_update, whose own name is longer.
bool is_of(const std::string& op, const RuleTraits& traits) {
  const RuleTraits* longest = nullptr;
  for (const RuleTraits& one : update_rules) {
    if (op.starts_with(std::string(one.name) + "_") &&
        (longest == nullptr || one.name.size() > longest->name.size()))
      longest = &one;
  }
  const bool of_matrices = op == "matrix_product" || op == "newton_schulz";
  return longest == &traits || (traits.matrices && of_matrices);
}

std::string polynomials() {
  std::string out =
      "  polynomials a x + b x^3 + c x^5 of newton_schulz, by muon.coefficients (R28):\n";
  for (const NewtonSchulzSetTraits& set : newton_schulz_sets) {
    std::string label(set.name);
    for (const QuinticPolynomial& p : set.polynomials) {
      label.resize(20, ' ');
      out += fmt::format("  {}{} {} {}\n", label, p.a, p.b, p.c);
      label.clear();
    }
    out +=
        fmt::format("{:22}then {} again\n", "", set.repeats_last ? "the last" : "from the first");
  }
  return out;
}

}  // namespace

std::vector<std::string> update_rule_names() {
  std::vector<std::string> names;
  for (const RuleTraits& traits : update_rules) names.emplace_back(traits.name);
  return names;
}

std::string explain_update_rule(const std::string& name) {
  const auto traits = std::ranges::find(update_rules, name, &RuleTraits::name);
  if (traits == update_rules.end()) return "";
  std::vector<std::string> state, operations, cited;
  for (const StateSlot slot : all_state_slots) {
    if (traits->keeps[slot]) state.emplace_back(zeroproof::name(slot));
  }
  std::vector<std::string> text;
  for (const Op& op : all_ops()) {
    if (op.type.empty() || !is_of(op.name, *traits)) continue;
    operations.push_back(op.name);
    for (const std::string& line : doc_block(op.type)) text.push_back(line);
  }
  for (const Passage& rule : rules()) {
    if (std::ranges::any_of(text, [&](const std::string& line) { return cites(line, rule.name); }))
      cited.push_back(rule.name);
  }
  std::string settings = "optimizer.rule = \"" + name + "\"";
  if (traits->matrices) settings += ", [muon] and [[matrix_split]]";
  std::string out = heading(name) +
                    "\n\n  An update rule of R6: zeroproof explain OPERATION and RULE have "
                    "the formulas.\n\n";
  out += labelled("state", state, ",") + labelled("operations", operations, ",") +
         labelled("rules", cited, ",") +
         labelled("settings", words_of(settings + " in the file of --config"), "") +
         labelled("cases", {"zeroproof verify byte_gpt_tiny", "--recipe " + name}, "") +
         "  recipes:\n";
  for (const Recipe& recipe : recipes()) {
    const RunConfig config = under_recipe(RunConfig{}, std::string(recipe.name));
    if (config.optimizer.rule != traits->rule) continue;
    out += "    " + std::string(recipe.name) + "\n" +
           wrapped({std::string(recipe.summary)}, explain_columns, "        ");
  }
  return traits->matrices ? out + polynomials() : out;
}

}  // namespace zeroproof::verification
