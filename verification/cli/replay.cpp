#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "common/base/error.hpp"
#include "common/base/printable.hpp"
#include "verification/cases/suites/bundle.hpp"
#include "verification/cases/suites/selection.hpp"
#include "verification/cli/commands.hpp"
#include "verification/cli/flag_scope.hpp"
#include "verification/cli/run_verify.hpp"

namespace zeroproof::verification {
namespace {

/// Files of a run; a bundle has copies of them.
constexpr SharedFlag replayed_files[] = {
    {"--config", "TOML settings of the run (ids only; bundles bring their own)"},
    {"--text", "file the run trained on"},
    {"--gradients", "safetensors file of recorded gradients the run used"}};

constexpr SharedFlag replayed_settings[] = {
    {"--seed", "seed of the run"},
    {"--steps"},
    {"--micro-batches"},
    {"--comm-timeout"},
    {"--offload-place"},
    {"--norm"},
    {"--max-norm"},
    {"--exp-avg-dtype"},
    {"--exp-avg-sq-dtype"},
    {"--master-dtype"},
    {"--plugin",
     "shared library with the operations that are judged; a bundle of a plug-in needs it, because "
     "replay never loads a library that a bundle names"},
    {"--plugin-timeout", "seconds a call of a plug-in may take"},
    {"--accept",
     "what results of a plug-in are held to: bits, any-order, or any-order,fp32-powers"},
    {"--declined"},
    {"--second-seed"},
    {"--fault"},
    {"--blind"}};

/// The settings of a bundle, as if the user had typed them; but a bundle comes from elsewhere, so only the user names
/// files of code.
void take_flags(const Bundle& bundle, CaseFlags& flags) {
  for (std::size_t i = 0; i < bundle.flags.size(); i += 2) {
    const std::string& name = bundle.flags[i];
    const bool known = std::ranges::any_of(
        replayed_settings, [&](const SharedFlag& flag) { return name == flag.name; });
    ZP_CHECK(known && i + 1 < bundle.flags.size(), ErrorCode::config,
             "the bundle has the setting " + name, "this program does not know it",
             "use the version that saved it");
    const CaseFlag& flag = case_flag(name);
    if (flag.is_file) {
      ZP_CHECK(flag.given(flags), ErrorCode::config,
               "the bundle was saved with " + name + " " + bundle.flags[i + 1],
               "replay loads no file that a bundle names",
               "add " + name + " FILE with a file that you trust");
      continue;
    }
    const auto& member = flag.member;
    if (const auto* list = std::get_if<std::vector<std::string> CaseFlags::*>(&member)) {
      (flags.**list).push_back(bundle.flags[i + 1]);
      continue;
    }
    flags.*std::get<std::string CaseFlags::*>(member) = bundle.flags[i + 1];
  }
  flags.config_file = bundle.config_file;
  flags.text = bundle.text_file;
  flags.gradients = bundle.gradients_file;
}

/// A bundle is a file like any other: its id may be a pattern, or nothing at all, which would mean every case.
void require_one_case(const Bundle& bundle, const CaseFlags& flags, const std::string& path) {
  const std::vector<std::string> ids = select_cases(options_from(flags)).ids();
  ZP_CHECK(ids.size() == 1 && ids.front() == bundle.id, ErrorCode::config,
           "bundle " + path + " has the id '" + bundle.id + "', which is not that of one case",
           "a bundle holds one failure", "save it again with verify --save-failing");
}

int replay_bundle(VerifyRequest request, const std::string& path) {
  const Bundle bundle = load_bundle(path);
  request.cases.patterns = {bundle.id};
  request.cases.oversubscribe = selects_training(bundle.id);  // it ran before
  take_flags(bundle, request.cases);
  require_one_case(bundle, request.cases, path);
  // Before its first use: the choice is made once per process.
  ::setenv("ZP_ISA", bundle.isa.c_str(), 1);
  RunReport report;
  const int code = run_verify(request, &report);
  const std::string now =
      report.results.empty() ? "nothing was judged" : failure_line(report.results.front());
  if (now == bundle.failure) {
    std::printf("bundle: the same failure as the saved one\n");
  } else {
    const std::string saved_by =
        bundle.program + " " + bundle.version + " (" + bundle.compiler + "): " + bundle.failure;
    std::printf("bundle: NOT the saved failure; saved by %s\n", printable(saved_by).c_str());
  }
  return code;
}

int replay_id(VerifyRequest request, const std::string& id) {
  request.cases.patterns = {id};
  request.cases.oversubscribe = selects_training(id);  // it ran before
  const VerifyOptions options = options_from(request.cases);
  const Selection selection = select_cases(options);
  ZP_CHECK(selection.size() > 0, ErrorCode::config,
           "'" + id + "' is neither a case id nor a saved bundle", "there is nothing to run again",
           "see zeroproof list for ids, and verify --save-failing for bundles");
  ZP_CHECK(selection.size() == 1, ErrorCode::config,
           "'" + id + "' means " + std::to_string(selection.size()) + " cases",
           "replay runs exactly one",
           "name one of them, such as " + selection.ids().front() + ", or use zeroproof verify");
  const int code = run_verify(request);
  if (code != 0 && code != 4 && request.save_failing.empty()) {
    std::printf(
        "bundle: add --save-failing FOLDER to keep this failure with everything a rerun needs\n");
  }
  return code;
}

}  // namespace

void add_replay(CommandSet& commands) {
  const Command command =
      commands.add("replay", "run one case again, from its id or from a saved bundle");
  const auto request = std::make_shared<VerifyRequest>();
  const auto what = std::make_shared<std::string>();
  command.required("what", *what, "a case id, or a bundle that verify --save-failing made");
  add_shared_flags(command, request->cases, replayed_files);
  add_shared_flags(command, request->cases, replayed_settings);
  add_report_flags(command, *request);
  command.runs([request, what] {
    std::error_code error;
    const bool saved = std::filesystem::exists(*what, error);
    return saved ? replay_bundle(*request, *what) : replay_id(*request, *what);
  });
}

}  // namespace zeroproof::verification
