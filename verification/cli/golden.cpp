#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

#include "common/base/error.hpp"
#include "common/base/printable.hpp"
#include "verification/cases/config/nearest.hpp"
#include "verification/cli/case_flags.hpp"
#include "verification/cli/commands.hpp"
#include "verification/cli/dump_flags.hpp"
#include "verification/cli/flag_scope.hpp"
#include "verification/cli/program/exit_code.hpp"
#include "verification/cli/run_verify.hpp"
#include "verification/compare/tensors/set_report.hpp"
#include "verification/interfaces/files/golden_call.hpp"
#include "verification/interfaces/plugin/plugin_candidate.hpp"
#include "verification/model/recorded.hpp"
#include "verification/report/github.hpp"
#include "verification/report/report_files.hpp"
#include "verification/tools/attribute/attribution_report.hpp"
#include "verification/tools/train/dump/golden.hpp"

namespace zeroproof::verification {
namespace {

struct GoldenFlags {
  std::string action;
  std::vector<std::string> words;  ///< files; of record a file and patterns
  CaseFlags run;
  std::vector<std::string> steps;
  CallRequest call;  // of record op/...: numel and variant
  std::string reason, plugin, results;
  std::vector<std::string> reports;
  bool strict_bits = false;
};

/// Settings of a recorded run.
constexpr SharedFlag recorded_settings[] = {
    {"--recipe", "record: variation of the step (zeroproof list --recipes)"},
    {"--dtype", "record: parameter dtype: bf16, fp16, fp32, e4m3, e5m2"},
    {"--sum", "record: summation of micro-batch gradients: tree, binned"},
    {"--norm", "record: form of the global norm: chunk1024, exact, inf, one"},
    {"--max-norm", "record: as in verify"},
    {"--config", "record: TOML settings"},
    {"--text", "record: file to train on"},
    {"--gradients", "record: safetensors file of recorded gradients"},
    {"--seed", "record: seed of initial parameters and data order; op/...: seed of the inputs"},
    {"--steps", "record: training steps"},
    {"--micro-batches", "record: micro-batches per step"}};

void require_action(const GoldenFlags& flags) {
  const std::vector<std::string> actions = {"record", "check", "update"};
  ZP_CHECK(std::find(actions.begin(), actions.end(), flags.action) != actions.end(),
           ErrorCode::config, "golden has no action '" + flags.action + "'",
           "actions are record, check and update", suggestion(flags.action, actions));
  const auto belongs = [&](bool given, const std::string& flag, const std::string& action) {
    ZP_CHECK(!given || flags.action == action, ErrorCode::config,
             flag + " was given to golden " + flags.action,
             "it would have no effect: the record beside the file has the settings",
             "leave it out; it belongs to golden " + action);
  };
  for (const SharedFlag& flag : recorded_settings)
    belongs(case_flag(flag.name).given(flags.run), flag.name, "record");
  belongs(!flags.steps.empty(), "--dump-steps", "record");
  belongs(!flags.reason.empty(), "--reason", "update");
  belongs(!flags.call.numel.empty(), "--numel", "record");
  belongs(!flags.call.variant.empty(), "--variant", "record");
  belongs(!flags.reports.empty(), "--report", "check");
  belongs(flags.strict_bits, "--strict-bits", "check");
  belongs(!flags.results.empty(), "--results", "check");
  ZP_CHECK(flags.results.empty() ||
               (flags.words.size() == 1 && flags.plugin.empty() && !flags.strict_bits),
           ErrorCode::config, "--results was given with several files, --plugin or --strict-bits",
           "it has the results for one file, and arrays have no bound",
           "check one file with it alone");
}

/// True if the words name an operation, and one call of it is kept.
bool names_call(const GoldenFlags& flags) {
  return flags.words.size() == 2 && flags.words[1].rfind("op/", 0) == 0;
}

/// The library of --plugin; null without it.
std::shared_ptr<const OpCandidate> library(const GoldenFlags& flags) {
  if (flags.plugin.empty()) return nullptr;
  return plugin_candidate(std::make_shared<Plugin>(flags.plugin, PluginLimits{}));
}

int record_call(const GoldenFlags& flags) {
  CaseFlags without_seed = flags.run;
  without_seed.seed.clear();
  const bool others =
      !flags.steps.empty() || std::ranges::any_of(recorded_settings, [&](const SharedFlag& flag) {
        return case_flag(flag.name).given(without_seed);
      });
  ZP_CHECK(!others, ErrorCode::config, "flags of a run were given with " + flags.words[1],
           "an operation has no recipe, dtype, text or steps",
           "use --numel, --variant and --seed, or leave them out");
  CallRequest request = flags.call;
  request.operation = flags.words[1];
  request.seed = flags.run.seed;
  const std::string& file = flags.words.front();
  const GoldenRecord made = record_golden_call(request, file, library(flags).get());
  std::printf("recorded %s and %s: %s%s\n", file.c_str(), golden_record_name(file).c_str(),
              made.case_id.c_str(),
              made.recorded_by.empty() ? "" : (", by " + made.recorded_by).c_str());
  return 0;
}

int record(const GoldenFlags& flags) {
  if (names_call(flags)) return record_call(flags);
  ZP_CHECK(flags.call.numel.empty() && flags.call.variant.empty(), ErrorCode::config,
           "--numel or --variant was given without an operation", "a run has neither",
           "leave them out, or name one as op/adamw_update");
  ZP_CHECK(flags.plugin.empty(), ErrorCode::config, "--plugin was given to record a run",
           "bits of a run have no bound, and a library computes operations",
           "name one, as in op/adamw_update");
  CaseFlags run = flags.run;
  run.patterns.assign(flags.words.begin() + 1, flags.words.end());
  require_applicable(run);
  const VerifyOptions options = options_from(run);
  const Selection selection = select_cases(options);
  if (!selection.unmatched.empty()) return nothing_matches(options, selection);
  const CaseSpec spec = only_trajectory(selection, "golden record");
  const std::vector<std::int64_t> steps = dumped_steps(flags.steps, config_of(options, spec).steps);
  const std::string& file = flags.words.front();
  const GoldenRecord made = record_golden(options, spec, steps, file);
  std::printf("recorded %s and %s: %s %s %s, trajectory %s\n", file.c_str(),
              golden_record_name(file).c_str(), made.workload.c_str(), made.recipe.c_str(),
              std::string(name(made.dtype)).c_str(), made.trajectory.c_str());
  return 0;
}

/// What became of one file.
struct Checked {
  GoldenVerdict verdict = GoldenVerdict::equal;
  std::string what, text;  ///< what the file holds; the report
};

Checked checked_run(const std::string& file) {
  const GoldenCheck check = check_golden(file);
  const GoldenRecord& record = check.record;
  Checked checked{check.verdict(),
                  record.workload + " " + record.recipe + " " + std::string(name(record.dtype)) +
                      ", trajectory " + record.trajectory,
                  ""};
  std::string& text = checked.text;
  text = file + ": " + checked.what + "\n";
  if (checked.verdict != GoldenVerdict::equal) {
    text += check.environment.empty()
                ? "environment unchanged: compiler, instruction sets, program\n"
                : "environment changed, a possible cause (the contract fixes the bits in any "
                  "environment):\n";
  }
  for (const std::string& change : check.environment) text += "  " + change + "\n";
  text += buffer_table(check.rows,
                       [](const BufferRow& row) { return std::string(name(golden_verdict(row))); });
  if (!check.extra.empty()) text += "the run has no tensor " + shown_name(check.extra) + "\n";
  text += check.first;
  if (checked.verdict == GoldenVerdict::wrong) {
    text +=
        "none of these buffers has a derived bound: the contract fixes their bits, and changed "
        "ones are wrong\n";
  }
  text += std::string(name(checked.verdict)) + "\n";
  return checked;
}

/// The command that keeps changed numbers; "" where nothing changed.
std::string remedy(const std::string& file, const GoldenFlags& flags, GoldenVerdict verdict,
                   const std::string& recorded_by) {
  if (verdict == GoldenVerdict::equal) return "";
  const std::string plugin = flags.plugin.empty() ? "" : " --plugin " + flags.plugin;
  if (!plugin.empty() && recorded_by.empty()) {
    return file + " has the reference's bits; record those of the library in another file: " +
           "zeroproof golden record FILE op/..." + plugin + "\n";
  }
  const std::string moved = verdict == GoldenVerdict::bits_changed && !recorded_by.empty()
                                ? "the numbers moved, and the change is legal; "
                                : "";
  return moved + "to keep the new numbers, if they are right: zeroproof golden update " + file +
         plugin + " --reason TEXT\n";
}

/// Whether a record is that of arrays (zproof.golden of Python), which no command computes again.
bool is_of_arrays(const std::string& record) {
  std::ifstream stream(record);
  std::string line;
  return std::getline(stream, line) && line == R"(schema = "zproof-golden/1")";
}

/// The recordings of operations beside both files, compared; a sentence as the last line.
std::string explanation(const std::string& file, const std::string& results) {
  namespace fs = std::filesystem;
  const std::string before = fs::path(file).replace_extension(".operations").string();
  const std::string after = fs::path(results).replace_extension(".operations").string();
  std::error_code ignored;
  if (!fs::exists(before, ignored)) return "";
  if (!fs::exists(after, ignored))
    return before + " has the operations that made it; record those of the results in " + after +
           " to learn the cause\nwrong\n";
  try {
    const std::vector<RankAttribution> ranks = attribute_files(before, after);
    if (first_of(ranks).found.verdict == AttributionVerdict::equal)
      return "the recorded operations have the same bits: the arrays were made, or changed, "
             "outside "
             "of them\nwrong\n";
    const std::string text = attribution_text(ranks);
    const std::size_t last = text.rfind('\n', text.size() - 2) + 1;
    return text.substr(0, last) + "wrong: " + text.substr(last);
  } catch (const Error& error) {
    return std::string("no cause can be named: ") + error.what() + "\nwrong\n";
  }
}

/// Arrays of the user's program against the file of a test.
Checked checked_results(const std::string& file, const std::string& results) {
  const std::string record = golden_record_name(file);
  ZP_CHECK(is_of_arrays(record), ErrorCode::config, record + " is no record of arrays of a test",
           "other golden files are computed again, and need no results",
           "leave --results out, or name a file that pytest --zp-regen made");
  const auto first = SafetensorsReader::open(file, workload::recording_limits());
  const auto second = SafetensorsReader::open(results, workload::recording_limits());
  ZP_CHECK(!first.header().tensors.empty(), ErrorCode::io, file + " has no tensor",
           "nothing would be compared", "name a file with tensors in it");
  const SetComparison comparison =
      compare_sets(first, second, pairs_by_name(first.header(), second.header()));
  Checked checked{comparison.equal() ? GoldenVerdict::equal : GoldenVerdict::wrong,
                  "arrays of a test", ""};
  checked.text = file + ": " + checked.what + "\n" +
                 set_table(comparison, "the golden file", "the results", false);
  if (checked.verdict == GoldenVerdict::equal) {
    checked.text += "equal\n";
    return checked;
  }
  const std::string explained = explanation(file, results);
  checked.text += (explained.empty() ? "wrong\n" : explained) +
                  "to keep the new numbers, if they are right: pytest --zp-regen REASON\n";
  return checked;
}

Checked checked_file(const std::string& file, const GoldenFlags& flags,
                     const OpCandidate* candidate) {
  if (!flags.results.empty()) return checked_results(file, flags.results);
  const GoldenRecord record = golden_record_of(file);
  Checked checked;
  if (of_a_call(record)) {
    const GoldenCallCheck check = check_golden_call(file, candidate);
    checked = {check.verdict(), check.call, to_text(check, file)};
  } else {
    ZP_CHECK(candidate == nullptr, ErrorCode::config,
             "--plugin was given with the trajectory " + file, "a library computes operations",
             "leave it out, or check a golden file of op/...");
    checked = checked_run(file);
  }
  checked.text += remedy(file, flags, checked.verdict, record.recorded_by);
  return checked;
}

/// Checks files one after the other, and reports them.
class GoldenReport {
 public:
  GoldenReport(const GoldenFlags& flags, const ReportTargets& targets)
      : flags_(flags), targets_(targets) {}

  void add(const std::string& file, const Checked& checked) {
    const bool wrong = checked.verdict == GoldenVerdict::wrong;
    const bool drifted = checked.verdict == GoldenVerdict::bits_changed;
    wrong_ = wrong_ || wrong;
    drifted_ = drifted_ || (drifted && flags_.strict_bits);
    if (targets_.text) std::printf("%s\n", printable_lines(checked.text).c_str());
    const std::string verdict(name(checked.verdict));
    if (wrong || drifted)
      annotate(wrong || flags_.strict_bits ? "error" : "warning", verdict, file, checked.text);
    rows_.push_back({verdict, file, checked.what, wrong || drifted ? checked.text : ""});
  }

  void add(const std::string& file, const Error& error) {
    (error.code() == ErrorCode::damaged ? damaged_ : unusable_) = true;
    std::fprintf(stderr, "zeroproof: %s\n", error.what());
    annotate("error", "cannot be checked", file, error.what());
    rows_.push_back({"cannot be checked", file, error.what(), ""});
  }

  int finish() {
    if (targets_.github) {
      std::ranges::stable_sort(rows_, {}, [](const SummaryRow& row) {
        return row.verdict == name(GoldenVerdict::equal);
      });
      write_job_summary("golden files", rows_);
    }
    return wrong_ ? 1 : damaged_ ? 7 : unusable_ ? 2 : drifted_ ? 8 : 0;
  }

 private:
  void annotate(const std::string& level, const std::string& title, const std::string& file,
                const std::string& text) {
    if (!targets_.github) return;
    const std::string& source = *targets_.github;
    std::fputs(
        github_command(level, {source.empty() ? file : source}, "golden: " + title, text).c_str(),
        stdout);
  }

  const GoldenFlags& flags_;
  const ReportTargets& targets_;
  std::vector<SummaryRow> rows_;
  bool wrong_ = false, damaged_ = false, unusable_ = false, drifted_ = false;
};

/// A file that cannot be checked does not keep the others from it. A difference is worse than that, a drift is not.
int check(const GoldenFlags& flags) {
  const ReportTargets targets = parse_targets(flags.reports);
  ZP_CHECK(targets.files().empty(), ErrorCode::config,
           "a report in " + (targets.files().empty() ? "" : targets.files().front()) +
               " was requested of golden check",
           "it has the reports text and github", "leave it out");
  const std::shared_ptr<const OpCandidate> candidate = library(flags);
  GoldenReport report(flags, targets);
  for (const std::string& file : flags.words) {
    try {
      report.add(file, checked_file(file, flags, candidate.get()));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::damaged && exit_code_of(error) > 2) throw;
      report.add(file, error);
    }
  }
  return report.finish();
}

int update(const GoldenFlags& flags) {
  ZP_CHECK(flags.words.size() == 1, ErrorCode::config, "golden update was given more than one file",
           "each has its own reason", "update them one by one");
  ZP_CHECK(flags.reason.find_first_not_of(" \t\n") != std::string::npos, ErrorCode::config,
           "golden update has no reason", "the history records why the numbers changed",
           "add --reason TEXT");
  const char* ci = std::getenv("CI");
  ZP_CHECK(ci == nullptr || *ci == '\0', ErrorCode::config,
           "golden update was called where CI is set",
           "a test that updates its own expectation checks nothing",
           "update on a machine of your own, and commit");
  const std::string& file = flags.words.front();
  const bool call = of_a_call(golden_record_of(file));
  ZP_CHECK(call || flags.plugin.empty(), ErrorCode::config,
           "--plugin was given with the trajectory " + file, "a library computes operations",
           "leave it out");
  const GoldenRecord made = call ? update_golden_call(file, flags.reason, library(flags).get())
                                 : update_golden(file, flags.reason);
  const std::string before =
      made.history.size() > 1 ? made.history[made.history.size() - 2].trajectory : "";
  std::printf("updated %s: %s %s, %s\n", file.c_str(), call ? "results" : "trajectory",
              made.trajectory.c_str(),
              before == made.trajectory ? "as before" : ("was " + before).c_str());
  return 0;
}

int golden(const GoldenFlags& flags) {
  require_action(flags);
  ZP_CHECK(!flags.words.empty(), ErrorCode::config, "golden " + flags.action + " was given no file",
           "every action needs a file", "name one after it");
  if (flags.action == "record") return record(flags);
  return flags.action == "check" ? check(flags) : update(flags);
}

}  // namespace

void add_golden(CommandSet& commands) {
  const Command command =
      commands.add("golden",
                   "verified results in a file: record FILE [PATTERN], check FILE ..., "
                   "update FILE --reason TEXT");
  const auto flags = std::make_shared<GoldenFlags>();
  command.required("action", flags->action, "record, check or update");
  command.words(
      "file", flags->words,
      "golden files (safetensors, each with FILE.toml beside it); record: one, and patterns");
  add_shared_flags(command, flags->run, recorded_settings);
  command.list("--dump-steps", flags->steps, "record: steps to store (default: the last one)");
  command.option("--reason", flags->reason, "update: why the numbers changed; stored in FILE.toml");
  command.flag("--strict-bits", flags->strict_bits,
               "check: exit 8 where bits changed within a derived bound (op/...; no buffer of a "
               "run has one)");
  command.option("--plugin", flags->plugin,
                 "op/...: shared library whose results are recorded, checked or updated");
  command.option(
      "--results", flags->results,
      "check: safetensors file with the arrays of your program, compared with those of a "
      "test; with recordings of operations beside both, the cause of a difference");
  command.words("--report", flags->reports,
                "check: text, github (annotations and job summary; github:SOURCE names the file to "
                "annotate), or both with a comma between (default: text)");
  command.option("--numel", flags->call.numel, "record op/...: elements (default: 1000)");
  command.option("--variant", flags->call.variant, "record op/...: settings, by number or name");
  command.runs([flags] { return golden(*flags); });
}

}  // namespace zeroproof::verification
