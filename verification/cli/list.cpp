#include <algorithm>
#include <cmath>
#include <cstdio>

#include "common/base/error.hpp"
#include "verification/cases/experiment.hpp"
#include "verification/cases/pairwise/axis.hpp"
#include "verification/cases/pairwise/visited.hpp"
#include "verification/cases/recipes.hpp"
#include "verification/cases/suites/estimate.hpp"
#include "verification/cases/suites/selection.hpp"
#include "verification/cli/chosen_cases.hpp"
#include "verification/cli/commands.hpp"
#include "verification/cli/run_verify.hpp"
#include "verification/faults/catalogue.hpp"
#include "verification/report/report_files.hpp"

namespace zeroproof::verification {
namespace {

/// "60 cases: 48 training, 12 op".
std::string counts_of(const Selection& selection) {
  std::string parts;
  for (const auto& [suite, ids] : selection.parts) {
    parts += (parts.empty() ? "" : ", ") + std::to_string(ids.size()) + " " + suite->name();
  }
  return std::to_string(selection.size()) + (selection.size() == 1 ? " case: " : " cases: ") +
         parts;
}

/// In a unit in which the number is small, with no more digits than the estimate has.
std::string duration(double seconds) {
  if (seconds < 10) return std::to_string(std::max(1L, std::lround(seconds))) + " s";
  if (seconds < 120) return std::to_string(10 * std::lround(seconds / 10)) + " s";
  return std::to_string(std::lround(seconds / 60)) + " min";
}

/// Outputs other than the ids of cases.
struct Instead {
  bool recipes = false, settings = false, faults = false, coverage = false;
  std::string json;  ///< file that gets the coverage too
};

/// "stage   --stage   0, 1, 2, 3"; "-" for a value that follows from other settings.
void print_settings() {
  for (const Axis& axis : axes()) {
    std::string values;
    for (const AxisValue& value : axis.values) values += (values.empty() ? "" : ", ") + value.name;
    std::string how = "+" + axis.name + ":";
    if (axis.of_id) how = axis.flags.empty() ? "-" : axis.flags.front();
    std::printf("%-18s %-22s %s\n", axis.name.c_str(), how.c_str(), values.c_str());
  }
}

int print_coverage(const ChosenCases& chosen, const std::string& file) {
  std::vector<CaseSpec> cases;
  for (const std::string& id : chosen.selection.ids()) {
    if (const auto spec = parse_case_id(id)) cases.push_back(*spec);
  }
  const Coverage coverage = coverage_of(chosen.options, cases);
  std::fputs(coverage_text(coverage).c_str(), stdout);
  if (!file.empty()) {
    write_report_file(file, coverage_json(coverage).dump(1) + "\n");
    std::printf("report: %s\n", file.c_str());
  }
  return 0;
}

int list(const CaseFlags& flags, const Instead& instead) {
  ZP_CHECK(instead.json.empty() || instead.coverage, ErrorCode::config,
           "--json was given without --coverage", "it is the file of --coverage", "add --coverage");
  if (instead.settings) {
    print_settings();
    return 0;
  }
  if (instead.recipes) {
    for (const Recipe& recipe : recipes()) {
      std::printf("%-18s %s\n", std::string(recipe.name).c_str(),
                  std::string(recipe.summary).c_str());
    }
    return 0;
  }
  if (instead.faults) {
    for (const Fault& fault : fault_catalogue()) {
      std::printf("%-32s %-12s %-16s %-8s %s\n", std::string(fault.id).c_str(),
                  std::string(name(fault.kind)).c_str(), std::string(fault.fault_class).c_str(),
                  std::string(place_of(fault)).c_str(), std::string(fault.summary).c_str());
    }
    return 0;
  }
  if (!instead.json.empty()) check_report_file(instead.json);
  const ChosenCases chosen = choose_cases(flags);
  const auto& [options, selection] = chosen;
  const std::vector<std::string> ids = selection.ids();
  if (!selection.unmatched.empty()) return nothing_matches(options, selection);
  check_selection(options, selection);
  if (instead.coverage) return print_coverage(chosen, instead.json);
  for (const std::string& id : ids) std::printf("%s\n", id.c_str());
  std::fflush(stdout);
  std::fprintf(stderr, "%s; about %s (an estimate)\n", counts_of(selection).c_str(),
               duration(estimated_seconds(options, selection)).c_str());
  return 0;
}

}  // namespace

void add_list(CommandSet& commands) {
  const Command command =
      commands.add("list", "print the ids of the cases that verify with the same flags would run");
  const std::shared_ptr<CaseFlags> flags = add_case_flags(command);
  const auto instead = std::make_shared<Instead>();
  command.flag("--recipes", instead->recipes, "print the variations of the step instead");
  command.flag("--settings", instead->settings,
               "print the settings that coverage counts instead, with their values");
  command.flag("--faults", instead->faults, "print the faults that can be planted instead");
  command.flag("--coverage", instead->coverage,
               "print which values of settings, and how many pairs and triples of them, the cases "
               "visit instead");
  command.option("--json", instead->json,
                 "file for the coverage with every unvisited pair and triple");
  command.runs([flags, instead] { return list(*flags, *instead); });
}

}  // namespace zeroproof::verification
