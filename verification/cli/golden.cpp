#include <algorithm>
#include <cstdio>
#include <cstdlib>
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
#include "verification/interfaces/files/golden_call.hpp"
#include "verification/interfaces/plugin/plugin_candidate.hpp"
#include "verification/tools/train/dump/golden.hpp"

namespace zeroproof::verification {
namespace {

struct GoldenFlags {
  std::string action;
  std::vector<std::string> words;  ///< files; of record a file and patterns
  CaseFlags run;
  std::vector<std::string> steps;
  CallRequest call;  // of record op/...: numel and variant
  std::string reason, plugin;
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
  belongs(!flags.plugin.empty(), "--plugin", "check");
  belongs(flags.strict_bits, "--strict-bits", "check");
}

/// True if the words name an operation, and one call of it is kept.
bool names_call(const GoldenFlags& flags) {
  return flags.words.size() == 2 && flags.words[1].rfind("op/", 0) == 0;
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
  const GoldenRecord made = record_golden_call(request, file);
  std::printf("recorded %s and %s: %s\n", file.c_str(), golden_record_name(file).c_str(),
              made.case_id.c_str());
  return 0;
}

int record(const GoldenFlags& flags) {
  if (names_call(flags)) return record_call(flags);
  ZP_CHECK(flags.call.numel.empty() && flags.call.variant.empty(), ErrorCode::config,
           "--numel or --variant was given without an operation", "a run has neither",
           "leave them out, or name one as op/adamw_update");
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

/// Returns the exit code of this file.
int show(const std::string& file, const GoldenCheck& check, bool strict_bits) {
  const GoldenRecord& record = check.record;
  const std::string title = file + ": " + record.workload + " " + record.recipe + " " +
                            std::string(name(record.dtype)) + ", trajectory " + record.trajectory;
  std::printf("%s\n", printable(title).c_str());
  const GoldenVerdict verdict = check.verdict();
  if (verdict != GoldenVerdict::equal) {
    std::puts(check.environment.empty()
                  ? "environment unchanged: compiler, instruction sets, program"
                  : "environment changed, a possible cause (the contract fixes the bits in any "
                    "environment):");
  }
  for (const std::string& change : check.environment)
    std::printf("  %s\n", printable(change).c_str());
  std::fputs(
      buffer_table(check.rows,
                   [](const BufferRow& row) { return std::string(name(golden_verdict(row))); })
          .c_str(),
      stdout);
  if (!check.extra.empty())
    std::printf("the run has no tensor %s\n", shown_name(check.extra).c_str());
  std::fputs(check.first.c_str(), stdout);
  if (verdict == GoldenVerdict::wrong) {
    std::puts(
        "none of these buffers has a derived bound: the contract fixes their bits, and changed "
        "ones are "
        "wrong");
  }
  std::printf("%s\n\n", std::string(name(verdict)).c_str());
  if (verdict == GoldenVerdict::wrong) return 1;
  return verdict == GoldenVerdict::bits_changed && strict_bits ? 8 : 0;
}

int show_call(const std::string& file, const OpCandidate* candidate, bool strict_bits) {
  const GoldenCallCheck check = check_golden_call(file, candidate);
  std::fputs(printable_lines(to_text(check, file)).c_str(), stdout);
  if (check.verdict() == GoldenVerdict::wrong) return 1;
  return check.verdict() == GoldenVerdict::bits_changed && strict_bits ? 8 : 0;
}

int show_run(const std::string& file, const OpCandidate* candidate, bool strict_bits) {
  ZP_CHECK(candidate == nullptr, ErrorCode::config,
           "--plugin was given with the trajectory " + file, "a library computes operations",
           "leave it out, or check a golden file of op/...");
  return show(file, check_golden(file), strict_bits);
}

/// A file that cannot be checked does not keep the others from it. A difference is worse than that, a drift is not.
int check(const GoldenFlags& flags) {
  bool wrong = false, damaged = false, unusable = false, drifted = false;
  std::shared_ptr<const OpCandidate> candidate;
  if (!flags.plugin.empty())
    candidate = plugin_candidate(std::make_shared<Plugin>(flags.plugin, PluginLimits{}));
  for (const std::string& file : flags.words) {
    try {
      const int code = of_a_call(golden_record_of(file))
                           ? show_call(file, candidate.get(), flags.strict_bits)
                           : show_run(file, candidate.get(), flags.strict_bits);
      wrong = wrong || code == 1;
      drifted = drifted || code == 8;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::damaged && exit_code_of(error) > 2) throw;
      (error.code() == ErrorCode::damaged ? damaged : unusable) = true;
      std::fprintf(stderr, "zeroproof: %s\n", error.what());
    }
  }
  return wrong ? 1 : damaged ? 7 : unusable ? 2 : drifted ? 8 : 0;
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
  const GoldenRecord made =
      call ? update_golden_call(file, flags.reason) : update_golden(file, flags.reason);
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
                 "check: shared library that computes the calls of op/... instead");
  command.option("--numel", flags->call.numel, "record op/...: elements (default: 1000)");
  command.option("--variant", flags->call.variant, "record op/...: settings, by number or name");
  command.runs([flags] { return golden(*flags); });
}

}  // namespace zeroproof::verification
