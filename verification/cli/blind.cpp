// zeroproof-faults verify --fault ID, verify --blind N, and reveal N: faults with and without their names.

#include <algorithm>
#include <cstdio>

#include "common/base/error.hpp"
#include "verification/cases/config/nearest.hpp"
#include "verification/cases/suites/selection.hpp"
#include "verification/cli/case_flags.hpp"
#include "verification/cli/commands.hpp"
#include "verification/cli/explain/explain_text.hpp"
#include "verification/cli/program/plant.hpp"
#include "verification/faults/blind_faults.hpp"

namespace zeroproof::verification {

void require_faults() {
  ZP_CHECK(faults_built(), ErrorCode::unavailable, "this program has no planted faults",
           "only zeroproof-faults has them",
           "use build/zeroproof-faults, which ./tests/run builds");
}

void check_fault(const std::string& fault) {
  if (fault.empty()) return;
  std::vector<std::string> ids;
  for (const Fault& known : fault_catalogue()) ids.emplace_back(known.id);
  const bool known = std::find(ids.begin(), ids.end(), fault) != ids.end();
  ZP_CHECK(known, ErrorCode::config, "fault '" + fault + "' does not exist",
           "--fault takes the id of a planted fault",
           suggestion(fault, ids, "zeroproof list --faults shows them"));
  require_faults();
}

std::string blind_line(const CaseFlags& flags, const VerifyOptions& options,
                       const std::string& case_id) {
  const std::size_t all = blind_faults(options, case_id).size();
  return "blind: fault " + flags.blind + " of " + std::to_string(all) +
         " that this case can have; zeroproof-faults reveal " + flags.blind + " " + case_id +
         " prints its name\n";
}

namespace {

int reveal(const std::string& number, const CaseFlags& flags) {
  const VerifyOptions options = options_from(flags);
  const Selection selection = select_cases(options);
  ZP_CHECK(selection.size() > 0, ErrorCode::config,
           "no case matches '" + flags.patterns.front() + "'",
           "the number counts the faults of one case", "use the id that verify --blind printed");
  std::fputs(explain_fault(blind_fault(options, selection.ids(), number)).c_str(), stdout);
  return 0;
}

}  // namespace

void add_reveal(CommandSet& commands) {
  const Command command = commands.add(
      "reveal", "print which fault verify --blind N plants into a case, and its effect");
  const auto flags = std::make_shared<CaseFlags>();
  const auto number = std::make_shared<std::string>();
  const auto id = std::make_shared<std::string>();
  command.required("number", *number, "the N of --blind");
  command.required("case", *id, "the id of the case");
  constexpr SharedFlag shared[] = {
      {"--steps", "training steps, if the run had a different number than the case"},
      {"--config", "TOML settings of the run"}};
  add_shared_flags(command, *flags, shared);
  command.runs([=] {
    flags->patterns = {*id};
    return reveal(*number, *flags);
  });
}

}  // namespace zeroproof::verification
