// zeroproof judge-run: judges the recording of a training run.

#include <unistd.h>

#include <memory>
#include <tuple>

#include "common/base/error.hpp"
#include "verification/cases/config/nearest.hpp"
#include "verification/cli/commands.hpp"
#include "verification/cli/step_range.hpp"
#include "verification/cli/write_reports.hpp"
#include "verification/report/progress.hpp"
#include "verification/tools/judge_run/judge_run.hpp"

namespace zeroproof::verification {
namespace {

struct JudgeRunFlags {
  std::string folder, steps, accumulate = "any", schedule;
  std::vector<std::string> reports;
};

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
  RunReport report;
  {
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
