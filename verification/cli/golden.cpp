#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "common/base/error.hpp"
#include "verification/cli/case_flags.hpp"
#include "verification/cli/commands.hpp"
#include "verification/cli/dump_flags.hpp"
#include "verification/cli/flag_scope.hpp"
#include "verification/cli/run_verify.hpp"
#include "verification/config/nearest.hpp"
#include "verification/dump/golden.hpp"
#include "verification/program/exit_code.hpp"

namespace zeroproof::verification {
namespace {

struct GoldenFlags {
  std::string action;
  std::vector<std::string> words;  ///< files; of record a file and patterns
  CaseFlags run;
  std::vector<std::string> steps;
  std::string reason;
  bool strict_bits = false;
};

/// The flags that were given, by what they are for.
struct Given {
  const char* flag;
  bool given;
  const char* action;
};

void require_action(const GoldenFlags& flags) {
  const std::vector<std::string> actions = {"record", "check", "update"};
  ZP_CHECK(std::find(actions.begin(), actions.end(), flags.action) != actions.end(), ErrorCode::config,
           "golden has no action '" + flags.action + "'", "a golden file is recorded, checked or updated",
           suggestion(flags.action, actions));
  const CaseFlags& run = flags.run;
  for (const Given& use :
       {Given{"--recipe", !run.recipes.empty(), "record"}, Given{"--dtype", !run.dtypes.empty(), "record"},
        Given{"--sum", !run.grad_sums.empty(), "record"}, Given{"--norm", !run.norm.empty(), "record"},
        Given{"--max-norm", !run.max_norm.empty(), "record"},
        Given{"--config", !run.config_file.empty(), "record"}, Given{"--text", !run.text.empty(), "record"},
        Given{"--gradients", !run.gradients.empty(), "record"}, Given{"--seed", !run.seed.empty(), "record"},
        Given{"--steps", !run.steps.empty(), "record"},
        Given{"--micro-batches", !run.micro_batches.empty(), "record"},
        Given{"--dump-steps", !flags.steps.empty(), "record"},
        Given{"--reason", !flags.reason.empty(), "update"},
        Given{"--strict-bits", flags.strict_bits, "check"}}) {
    ZP_CHECK(!use.given || flags.action == use.action, ErrorCode::config,
             std::string(use.flag) + " was given to golden " + flags.action,
             "the flag would do nothing: the record beside the file says how it was made",
             std::string("leave it out; it belongs to golden ") + use.action);
  }
}

int record(const GoldenFlags& flags) {
  CaseFlags run = flags.run;
  run.patterns.assign(flags.words.begin() + 1, flags.words.end());
  require_applicable(run);
  const VerifyOptions options = options_from(run);
  const Selection selection = select_cases(options);
  if (selection.size() == 0) return nothing_matches(options);
  const CaseSpec spec = only_trajectory(selection, "golden record");
  const std::vector<std::int64_t> steps = dumped_steps(flags.steps, config_of(options, spec).steps);
  const std::string& file = flags.words.front();
  const GoldenRecord made = record_golden(options, spec, steps, file);
  std::printf("recorded %s and %s: %s %s %s, trajectory %s\n", file.c_str(), golden_record_name(file).c_str(),
              made.workload.c_str(), made.recipe.c_str(), std::string(name(made.dtype)).c_str(),
              made.trajectory.c_str());
  return 0;
}

/// Returns the exit code of this file.
int show(const std::string& file, const GoldenCheck& check, bool strict_bits) {
  const GoldenRecord& record = check.record;
  std::printf("%s: %s %s %s, trajectory %s\n", file.c_str(), record.workload.c_str(), record.recipe.c_str(),
              std::string(name(record.dtype)).c_str(), record.trajectory.c_str());
  const GoldenVerdict verdict = check.verdict();
  if (verdict != GoldenVerdict::equal) {
    std::puts(check.environment.empty()
                  ? "environment as it was: compiler, instruction sets, program"
                  : "not as it was, which may be why (the contract fixes the bits whatever it is):");
  }
  for (const std::string& change : check.environment) std::printf("  %s\n", change.c_str());
  std::fputs(
      buffer_table(check.rows, [](const BufferRow& row) { return std::string(name(golden_verdict(row))); })
          .c_str(),
      stdout);
  if (!check.extra.empty()) std::printf("the run has no tensor %s\n", shown_name(check.extra).c_str());
  std::fputs(check.first.c_str(), stdout);
  if (verdict == GoldenVerdict::wrong) {
    std::puts(
        "none of these buffers has a derived bound: the contract fixes their bits, and changed ones are "
        "wrong");
  }
  std::printf("%s\n\n", std::string(name(verdict)).c_str());
  if (verdict == GoldenVerdict::wrong) return 1;
  return verdict == GoldenVerdict::bits_changed && strict_bits ? 8 : 0;
}

/// A file that cannot be checked does not keep the others from it. A difference is worse than that, a drift is not.
int check(const GoldenFlags& flags) {
  bool wrong = false, unusable = false, drifted = false;
  for (const std::string& file : flags.words) {
    try {
      const int code = show(file, check_golden(file), flags.strict_bits);
      wrong = wrong || code == 1;
      drifted = drifted || code == 8;
    } catch (const Error& error) {
      if (exit_code_of(error) > 2) throw;
      unusable = true;
      std::fprintf(stderr, "zeroproof: %s\n", error.what());
    }
  }
  return wrong ? 1 : unusable ? 2 : drifted ? 8 : 0;
}

int update(const GoldenFlags& flags) {
  ZP_CHECK(flags.words.size() == 1, ErrorCode::config, "golden update was given more than one file",
           "each has a reason of its own", "update them one by one");
  ZP_CHECK(flags.reason.find_first_not_of(" \t\n") != std::string::npos, ErrorCode::config,
           "golden update has no reason", "whoever reads the history has to know why the numbers changed",
           "add --reason TEXT");
  const char* ci = std::getenv("CI");
  ZP_CHECK(ci == nullptr || *ci == '\0', ErrorCode::config, "golden update was called where CI is set",
           "a test that renews what it is compared with proves nothing",
           "update on a machine of your own, and commit");
  const std::string& file = flags.words.front();
  const GoldenRecord made = update_golden(file, flags.reason);
  const std::string before = made.history.size() > 1 ? made.history[made.history.size() - 2].trajectory : "";
  std::printf("updated %s: trajectory %s, %s\n", file.c_str(), made.trajectory.c_str(),
              before == made.trajectory ? "as before" : ("was " + before).c_str());
  return 0;
}

int golden(const GoldenFlags& flags) {
  require_action(flags);
  ZP_CHECK(!flags.words.empty(), ErrorCode::config, "golden " + flags.action + " was given no file",
           "there is nothing to do", "name a file behind it");
  if (flags.action == "record") return record(flags);
  return flags.action == "check" ? check(flags) : update(flags);
}

}  // namespace

void add_golden(CommandSet& commands) {
  const Command command = commands.add("golden",
                                       "numbers that were right once, in a file: record FILE [PATTERN], "
                                       "check FILE ..., update FILE --reason TEXT");
  const auto flags = std::make_shared<GoldenFlags>();
  CaseFlags& run = flags->run;
  command.required("action", flags->action, "record, check or update");
  command.words("file", flags->words,
                "golden files (safetensors; FILE.toml is beside each); of record one, and patterns");
  command.list("--recipe", run.recipes, "record: variation of the step (zeroproof list --recipes)");
  command.list("--dtype", run.dtypes, "record: parameter dtype: bf16, fp16, fp32");
  command.list("--sum", run.grad_sums, "record: how leaves are added: tree, binned");
  command.option("--norm", run.norm, "record: form of the global norm: chunk1024, exact, inf, one");
  command.option("--max-norm", run.max_norm, "record: as of verify");
  command.option("--config", run.config_file, "record: TOML settings");
  command.option("--text", run.text, "record: file to train on");
  command.option("--gradients", run.gradients, "record: safetensors file of recorded gradients");
  command.option("--seed", run.seed, "record: seed of first parameters and data order");
  command.option("--steps", run.steps, "record: training steps");
  command.option("--micro-batches", run.micro_batches, "record: micro-batches per step");
  command.list("--dump-steps", flags->steps, "record: steps that are kept (default: the last one)");
  command.option("--reason", flags->reason, "update: why the numbers changed; kept in FILE.toml");
  command.flag("--strict-bits", flags->strict_bits,
               "check: exit 8 where bits changed within a derived bound (no buffer has one today)");
  command.runs([flags] { return golden(*flags); });
}

}  // namespace zeroproof::verification
