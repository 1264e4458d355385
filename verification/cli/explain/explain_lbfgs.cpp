// zeroproof explain lbfgs: an optimizer that is compared step by step, not operation by operation.

#include "verification/cli/explain/explain_text.hpp"
#include "verification/cli/program/contract_text.hpp"
#include "verification/cli/program/contract_version.hpp"
#include "verification/training/lbfgs/lbfgs_case.hpp"

namespace zeroproof::verification {

std::string lbfgs_line() {
  return "  lbfgs                       L-BFGS with a closure over ranks (R21)\n";
}

std::string explain_lbfgs() {
  std::string out = heading("lbfgs") + "\n\n" + block_of("MakeLbfgsFn") + "\n";
  out += labelled("class", {"bitwise,", "for", "any", "ranks", "and", "shards"}, "");
  out += labelled("phase", {"none"}, "");
  out += labelled("contract",
                  {"common/contracts/lbfgs.hpp", "(numeric", "contract",
                   std::to_string(contract_version) + ",", "R21)"},
                  "");
  std::vector<std::string> sources, tests;
  for (const ImplementationFile& file : implementation_files()) {
    if (file.function != "make_lbfgs") continue;
    (file.file.starts_with("tests/") ? tests : sources).push_back(file.file);
  }
  out += labelled("sources", sources, ",");
  if (!tests.empty()) out += labelled("tests", tests, ",");
  out += labelled(
      "operations",
      {"dot_accumulate", "dot_finish", "grad_abs_accumulate", "grad_max_accumulate", "mean_loss"},
      ",");
  out += labelled(
      "compared",
      {"point,", "loss", "and",    "gradient", "of",     "every", "evaluation;", "after", "every",
       "step",   "the",  "report", "and",      "the",    "whole", "state,",      "which", "is",
       "saved",  "and",  "loaded", "again",    "before", "the",   "last",        "one"},
      "");
  out += labelled(
      "cases",
      {"zeroproof verify 'lbfgs/*'", "(" + std::to_string(lbfgs_cases("lbfgs").size()) + ");",
       "ids", "are", "lbfgs/WORKLOAD/RECIPE/WORLD/LAYOUT"},
      "");
  for (const LbfgsRecipe& recipe : lbfgs_recipes()) {
    std::string line = "    " + std::string(recipe.workload) + "/" + std::string(recipe.name);
    line.resize(34, ' ');
    out += line + std::string(recipe.summary) + "\n";
  }
  out += "  faults planted in it (zeroproof-faults):\n";
  for (const Fault& fault : lbfgs_faults()) out += fault_text(fault);
  return out;
}

}  // namespace zeroproof::verification
