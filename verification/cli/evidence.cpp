#include "verification/cli/evidence.hpp"

#include <unistd.h>
#if defined(__GLIBC__)
#include <gnu/libc-version.h>
#endif

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "common/base/error.hpp"
#include "common/base/printable.hpp"
#include "common/io/files/byte_source.hpp"
#include "verification/cli/commands.hpp"
#include "verification/cli/flag_scope.hpp"
#include "verification/cli/program/capabilities.hpp"
#include "verification/cli/program/contract_version.hpp"
#include "verification/cli/program/file_digest.hpp"
#include "verification/cli/run_verify.hpp"
#include "verification/faults/sensitivity.hpp"
#include "verification/report/report_files.hpp"

namespace zeroproof::verification {
namespace {

constexpr std::uint64_t most_evidence_bytes = std::uint64_t{256} << 20;

std::vector<DeclaredCase> declared_cases(const Selection& selection) {
  std::vector<DeclaredCase> declared;
  for (const auto& [suite, ids] : selection.parts) {
    for (const std::string& id : ids) declared.push_back({id, suite->num_ranks(id)});
  }
  return declared;
}

/// Flags that change the computation of a case and are no part of its id; files by content.
EvidenceSettings evidence_settings(const CaseFlags& flags, const VerifyOptions& options) {
  EvidenceSettings settings;
  for (std::size_t i = 0; i + 1 < options.replay_flags.size(); i += 2) {
    const std::string& name = options.replay_flags[i];
    if (!case_flag(name).is_file)
      settings.flags.insert(settings.flags.end(), {name, options.replay_flags[i + 1]});
  }
  for (const CaseFlag& flag : case_flags()) {
    if (!flag.is_file) continue;
    for (const std::string& path : flag.values(flags))
      settings.inputs.push_back(
          {flag.name, std::filesystem::absolute(path).string(), file_digest(path)});
  }
  return settings;
}

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

std::string c_library() {
#if defined(__GLIBC__)
  return std::string("glibc ") + ::gnu_get_libc_version();
#else
  return "unknown";
#endif
}

/// Environment variables that libraries and this program read: "OMP_NUM_THREADS=2 ...".
std::string variables() {
  std::vector<std::string> found;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    for (const char* prefix : {"OMP_", "ZP_", "NCCL_", "CUDA_"}) {
      if (text.starts_with(prefix)) found.emplace_back(text);
    }
  }
  std::ranges::sort(found);
  std::string all;
  for (const std::string& one : found) all += (all.empty() ? "" : " ") + one;
  return all;
}

std::vector<std::pair<std::string, std::string>> environment_of_run() {
  std::vector<std::pair<std::string, std::string>> environment = {{"cpu", cpu_model()},
                                                                  {"c library", c_library()}};
  for (const Capability& one : capabilities()) environment.emplace_back(one.name, one.detail);
  environment.emplace_back("variables", variables());
  return environment;
}

const Result* result_of(const std::vector<Result>& results, const std::string& id) {
  const auto found = std::ranges::find(results, id, &Result::id);
  return found == results.end() ? nullptr : &*found;
}

/// The cases that this program selects for the patterns and flags of the command line.
RequiredEvidence required_by(const CaseFlags& flags, const Selection& selection,
                             const VerifyOptions& options) {
  return {declared_cases(selection), evidence_settings(flags, options)};
}

/// The cases that the evidence declares, without ranks where this program has no such case.
RequiredEvidence declared_by(const DeterminismEvidence& evidence) {
  RequiredEvidence required;
  for (const DeclaredCase& one : evidence.denominator) {
    const Suite& suite = suite_meant(one.id);
    VerifyOptions options;
    options.patterns = {one.id};
    int ranks = 0;
    try {
      if (suite.ids(options, one.id) == std::vector<std::string>{one.id})
        ranks = suite.num_ranks(one.id);
    } catch (const Error&) {
      // a part of the id does not exist here
    }
    required.cases.push_back({one.id, ranks});
  }
  return required;
}

int validate_evidence(const std::string& file, const CaseFlags& flags) {
  const DeterminismEvidence evidence =
      evidence_from_json(read_small_file(file, most_evidence_bytes), file);
  RequiredEvidence required;
  const bool names_cases =
      !flags.patterns.empty() ||
      std::ranges::any_of(case_flags(), [&](const CaseFlag& one) { return one.given(flags); });
  if (names_cases) {
    for (const char* name : {"--jobs", "--hostfile", "--oversubscribe", "--second-seed"})
      ZP_CHECK(!case_flag(name).given(flags), ErrorCode::config,
               std::string(name) + " was given to evidence",
               "no case runs, and the flag would have no effect", "leave it out");
    require_applicable(flags);
    const VerifyOptions options = options_from(flags);
    const Selection selection = select_cases(options);
    if (!selection.unmatched.empty()) return nothing_matches(options, selection);
    required = required_by(flags, selection, options);
  } else {
    required = declared_by(evidence);
  }
  const EvidenceFindings findings =
      check_evidence(evidence, required, ZP_VERSION, contract_version, source_state());
  std::fputs(printable_lines(to_text(evidence, findings)).c_str(), stdout);
  return exit_code(findings);
}

}  // namespace

void check_evidence_file(const std::string& file, const CaseFlags& flags) {
  check_report_file(file);
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  ZP_CHECK(!std::filesystem::exists(status) || std::filesystem::is_regular_file(status),
           ErrorCode::config, "evidence file " + file + " is no regular file",
           "it is written before the run and replaced after it", "use a file in a folder");
  std::vector<std::string> inputs;
  for (const CaseFlag& flag : case_flags()) {
    if (!flag.is_file) continue;
    for (const std::string& path : flag.values(flags)) inputs.push_back(path);
  }
  check_not_input(file, inputs);
}

DeterminismEvidence declared_evidence(const CaseFlags& flags, const VerifyOptions& options,
                                      const Selection& selection) {
  DeterminismEvidence evidence;
  evidence.version = ZP_VERSION;
  evidence.contract = contract_version;
  evidence.source = source_state();
  evidence.environment = environment_of_run();
  evidence.patterns = flags.patterns;
  evidence.settings = evidence_settings(flags, options);
  evidence.denominator = declared_cases(selection);
  return evidence;
}

EvidenceRun run_for_evidence(const VerifyOptions& options, const Selection& selection,
                             const ProgressSink& progress) {
  EvidenceRun run;
  run.replayed = run_selection(options, selection, [&](double fraction, const std::string& what) {
                   progress(0.5 * fraction, what);
                 }).results;
  const std::vector<std::string> ids = selection.ids();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto place = [&](double fraction, const std::string& what) {
      progress(0.5 + 0.5 * (static_cast<double>(i) + fraction) / static_cast<double>(ids.size()),
               what);
    };
    if (const auto found = sensitivity_of(options, ids[i], place))
      run.sensitivities.emplace_back(ids[i], *found);
  }
  return run;
}

void finish_evidence(DeterminismEvidence& evidence, const EvidenceRun& run, RunReport& report) {
  for (const DeclaredCase& declared : evidence.denominator) {
    evidence.cases.push_back(case_evidence(declared, result_of(run.replayed, declared.id),
                                           result_of(report.results, declared.id)));
    const auto measured = std::ranges::find(run.sensitivities, declared.id,
                                            &std::pair<std::string, Sensitivity>::first);
    if (measured != run.sensitivities.end()) evidence.cases.back().sensitivity = measured->second;
  }
  for (Result& result : report.results) {
    const Result* const other = result_of(run.replayed, result.id);
    if (result.status != Status::pass || other == nullptr || other->status == Status::pass)
      continue;
    result = *other;
    result.reason = "in one of two runs: " + result.reason;
  }
  const SourceState now = source_state();
  if (!(now == evidence.source)) evidence.source.changed.emplace_back("changed during the run");
  evidence.finished = true;
}

void add_evidence(CommandSet& commands) {
  const Command command =
      commands.add("evidence",
                   "validate a file of verify --evidence: every case deterministic on every "
                   "rank, equal to the reference, and of the present sources");
  const auto file = std::make_shared<std::string>();
  command.required("file", *file, "file of verify --evidence");
  const std::shared_ptr<CaseFlags> flags = add_case_flags(command, true);
  command.runs([file, flags] { return validate_evidence(*file, *flags); });
}

}  // namespace zeroproof::verification
