#include <algorithm>
#include <cmath>
#include <cstdio>

#include "verification/case/experiment.hpp"
#include "verification/case/recipes.hpp"
#include "verification/cli/chosen_cases.hpp"
#include "verification/cli/commands.hpp"
#include "verification/cli/run_verify.hpp"
#include "verification/faults/catalogue.hpp"
#include "verification/suite/estimate.hpp"
#include "verification/suite/selection.hpp"

namespace zeroproof::verification {
namespace {

/// "60 cases: 48 training, 12 op".
std::string counts_of(const Selection& selection) {
  std::string parts;
  for (const auto& [suite, ids] : selection.parts) {
    parts += (parts.empty() ? "" : ", ") + std::to_string(ids.size()) + " " + suite->name();
  }
  return std::to_string(selection.size()) + (selection.size() == 1 ? " case: " : " cases: ") + parts;
}

/// In a unit in which it is a small number, and not more exactly than it is known.
std::string duration(double seconds) {
  if (seconds < 10) return std::to_string(std::max(1L, std::lround(seconds))) + " s";
  if (seconds < 120) return std::to_string(10 * std::lround(seconds / 10)) + " s";
  return std::to_string(std::lround(seconds / 60)) + " min";
}

int list(const CaseFlags& flags, bool faults, bool with_recipes) {
  if (with_recipes) {
    for (const Recipe& recipe : recipes()) {
      std::printf("%-18s %s\n", std::string(recipe.name).c_str(), std::string(recipe.summary).c_str());
    }
    return 0;
  }
  if (faults) {
    for (const Fault& fault : fault_catalogue()) {
      std::printf("%-32s %-12s %-16s %-8s %s\n", std::string(fault.id).c_str(),
                  std::string(name(fault.kind)).c_str(), std::string(fault.fault_class).c_str(),
                  std::string(place_of(fault)).c_str(), std::string(fault.summary).c_str());
    }
    return 0;
  }
  const auto& [options, selection] = choose_cases(flags);
  const std::vector<std::string> ids = selection.ids();
  if (ids.empty()) return nothing_matches(options);
  for (const std::string& id : ids) std::printf("%s\n", id.c_str());
  std::fflush(stdout);
  std::fprintf(stderr, "%s; about %s (an estimate)\n", counts_of(selection).c_str(),
               duration(estimated_seconds(options, selection)).c_str());
  return 0;
}

}  // namespace

void add_list(CommandSet& commands) {
  const Command command =
      commands.add("list", "print the ids of the cases a verify with the same flags would run");
  const std::shared_ptr<CaseFlags> flags = add_case_flags(command);
  const auto faults = std::make_shared<bool>(false);
  const auto with_recipes = std::make_shared<bool>(false);
  command.flag("--recipes", *with_recipes, "print the variations of the step instead");
  command.flag("--faults", *faults, "print the faults that can be planted instead");
  command.runs([flags, faults, with_recipes] { return list(*flags, *faults, *with_recipes); });
}

}  // namespace zeroproof::verification
