// zeroproof judge-run: judges the recording of a training run.

#include <unistd.h>

#include <memory>
#include <tuple>

#include "common/base/error.hpp"
#include "verification/cases/config/flag_number.hpp"
#include "verification/cases/config/nearest.hpp"
#include "verification/cli/commands.hpp"
#include "verification/cli/step_range.hpp"
#include "verification/cli/write_reports.hpp"
#include "verification/report/progress.hpp"
#include "verification/tools/judge_run/judge_against.hpp"
#include "verification/tools/judge_run/judge_run.hpp"

namespace zeroproof::verification {
namespace {

struct JudgeRunFlags {
  std::string folder, against, gradients_within, steps, accumulate = "any", schedule;
  std::vector<std::string> reports;
};

RunReport compare_recordings(const JudgeRunFlags& flags, std::int64_t first, std::int64_t last) {
  JudgeAgainstSettings settings{{flags.folder, flags.against}, first, last, {}, {}};
  if (!flags.gradients_within.empty())
    settings.phases.gradients_within =
        flag_number<double>(flags.gradients_within, "--gradients-within", 1e-12, 1);
  ProgressBar bar;
  settings.progress = [&](double fraction, const std::string& what) { bar.show(fraction, what); };
  return judge_against(settings);
}

int judge_recording(const JudgeRunFlags& flags) {
  JudgeRunSettings settings;
  ZP_CHECK(!flags.folder.empty(), ErrorCode::config, "the folder's name is empty",
           "a recording is a folder", "name the folder that the recorder wrote");
  settings.folder = flags.folder;
  if (!flags.steps.empty())
    std::tie(settings.first, settings.last) = parse_step_range(flags.steps, "3..8");
  ZP_CHECK(flags.accumulate == "any" || flags.accumulate == "fp32", ErrorCode::config,
           "--accumulate is '" + flags.accumulate + "'",
           "sums in bf16 and fp16 are right and named, or wrong",
           suggestion(flags.accumulate, {"any", "fp32"}));
  settings.schedule = flags.schedule;
  settings.phases.only_fp32 = flags.accumulate == "fp32";
  const ReportTargets targets = parse_targets(flags.reports);
  for (const std::string& file : targets.files()) {
    check_report_file(file);
    check_not_input(file, {flags.schedule});
  }
  ZP_CHECK(flags.gradients_within.empty() || !flags.against.empty(), ErrorCode::config,
           "--gradients-within is given without --against",
           "gradients of one recording are held to the bound of their sum", "add --against FOLDER");
  ZP_CHECK(flags.against.empty() || !settings.phases.only_fp32, ErrorCode::config,
           "--accumulate fp32 is given with --against",
           "two recordings are held to the formats of their gradients",
           "judge each of them alone with it");
  ZP_CHECK(flags.against.empty() || flags.schedule.empty(), ErrorCode::config,
           "--schedule is given with --against", "it says the rates of one recording",
           "judge each of them alone with it");
  RunReport report;
  if (!flags.against.empty()) {
    report = compare_recordings(flags, settings.first, settings.last);
  } else {
    ProgressBar bar;
    settings.progress = [&](double fraction, const std::string& what) { bar.show(fraction, what); };
    report = judge_run(settings);
  }
  write_reports(report, targets, {.colour = wants_colour(STDOUT_FILENO)}, false);
  return exit_code(report, false);
}

}  // namespace

void add_judge_run(CommandSet& commands) {
  const Command command = commands.add(
      "judge-run", "judge every recorded step of another program's training, phase by phase");
  const auto flags = std::make_shared<JudgeRunFlags>();
  command.required("folder", flags->folder,
                   "recording: a file for each rank and step "
                   "(verification/tools/judge_run/README.md)");
  command.option("--against", flags->against,
                 "recording of the same training under other settings: compare with it instead");
  command.option("--gradients-within", flags->gradients_within,
                 "with --against: gradients of other kernels may differ by this times the largest "
                 "element of their tensor");
  command.option("--steps", flags->steps, "judge only these, as in 3..8 or 3");
  command.option("--accumulate", flags->accumulate,
                 "any: sums in bf16 or fp16 are right, and named; fp32: they are wrong");
  command.option(
      "--schedule", flags->schedule,
      "TOML file with optimizer.lr, [schedule] and [[param_group]]: the rate of each step is "
      "judged by it");
  command.words("--report", flags->reports,
                "text, json:FILE, junit:FILE, html:FILE, or several with commas between "
                "(default: text)");
  command.runs([flags] { return judge_recording(*flags); });
}

}  // namespace zeroproof::verification
