#include "verification/cli/flag_scope.hpp"

#include <algorithm>

#include "common/base/error.hpp"
#include "verification/cases/experiment.hpp"
#include "verification/cases/suites/selection.hpp"

namespace zeroproof::verification {
namespace {

using Kind = CaseFlag::Kind;

/// Cases that a pattern selects.
struct SelectedKind {
  Kind kind;
  const char* suite;
  const char* described;
};

constexpr SelectedKind selected_kinds[] = {
    {Kind::training, "training", "training cases"},
    {Kind::training_id, "", "a complete case id, which already has the setting"},
    {Kind::covering, "", "rows of a covering array, which choose the settings"},
    {Kind::op, "op", "single operations"},
    {Kind::lbfgs, "lbfgs", "runs of L-BFGS, whose ids have all settings"},
    {Kind::control, "controls", "controls"},
    {Kind::comm, "comm", "single collectives, whose ids have all settings"},
    {Kind::resume, "resume", "resumed runs, whose ids have all settings"}};

SelectedKind kind_of(const std::string& pattern, bool covering) {
  const std::string suite = suite_meant(pattern).name();
  if (suite == "training") return selected_kinds[parse_case_id(pattern) ? 1 : covering ? 2 : 0];
  return *std::ranges::find_if(selected_kinds,
                               [&](const SelectedKind& one) { return suite == one.suite; });
}

/// Not every implementation has a form for operations, and L-BFGS is host code.
void check_implementations(const CaseFlags& flags, Kind kind, const std::string& pattern) {
  for (const std::string& implementation : flags.implementations) {
    const bool fits = kind == Kind::op ? implementation != "host-fused"
                                       : kind != Kind::lbfgs || implementation == "host";
    ZP_CHECK(fits, ErrorCode::config,
             "--impl " + implementation + " does not apply to '" + pattern + "'",
             kind == Kind::op ? "operations are compared one at a time, not fused"
                              : "L-BFGS runs on the host",
             kind == Kind::op ? "use host, device or plugin" : "use host, or leave the flag out");
  }
}

/// The end of a resumed run's id may have the number of steps.
void check_steps(const CaseFlags& flags, const std::string& pattern) {
  ZP_CHECK(flags.steps.empty() || pattern.find("-of-") == std::string::npos, ErrorCode::config,
           "--steps " + flags.steps + " does not apply to '" + pattern + "'",
           "the id has the number of steps", "leave the flag out, or -of- and what follows");
}

}  // namespace

bool selects_training(const std::string& pattern) {
  return suite_meant(pattern).name() == "training";
}

void require_applicable(const CaseFlags& flags) {
  std::vector<std::string> patterns = flags.patterns;
  if (patterns.empty()) patterns.emplace_back("");  // the main job: training cases
  for (const std::string& pattern : patterns) {
    const auto [kind, suite, described] = kind_of(pattern, !flags.cover.empty());
    for (const CaseFlag& flag : case_flags()) {
      ZP_CHECK((flag.applies & kind) != 0 || !flag.given(flags), ErrorCode::config,
               std::string(flag.name) + " does not apply to '" + pattern + "'",
               std::string("that selects ") + described + ", and the flag would do nothing",
               "leave the flag out, or the pattern");
    }
    check_implementations(flags, kind, pattern);
    if (kind == Kind::resume) check_steps(flags, pattern);
  }
}

}  // namespace zeroproof::verification
