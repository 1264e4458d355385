// zeroproof audit: recomputes a run and compares it with its log.

#include <cstdio>
#include <memory>
#include <tuple>

#include "common/base/error.hpp"
#include "common/base/printable.hpp"
#include "verification/cli/commands.hpp"
#include "verification/cli/step_range.hpp"
#include "verification/report/progress.hpp"
#include "verification/tools/train/checkpoints/audit.hpp"

namespace zeroproof::verification {
namespace {

struct AuditFlags {
  std::string folder, steps, world = "self", log;
  bool by_reference = false;
};

int audit_run(const AuditFlags& flags) {
  AuditSettings settings;
  ZP_CHECK(!flags.folder.empty(), ErrorCode::config, "the folder's name is empty",
           "an audit needs a folder", "name the folder of a training's checkpoints");
  settings.folder = flags.folder;
  settings.log = flags.log.empty() ? flags.folder + "/log.jsonl" : flags.log;
  if (!flags.steps.empty())
    std::tie(settings.first, settings.last) = parse_step_range(flags.steps, "100..120");
  settings.world = parse_world(flags.world);
  ZP_CHECK(!settings.world.has_processes(), ErrorCode::config, "--world is " + flags.world,
           "an audit runs in one process", "use self or threads:N: the bits are the same");
  settings.by_reference = flags.by_reference;
  AuditResult result;
  {
    ProgressBar bar;
    settings.progress = [&](double fraction, const std::string& what) { bar.show(fraction, what); };
    result = audit(settings);
  }
  if (!result.finding && result.buckets == 0) {
    std::fprintf(stderr,
                 "zeroproof: %s has no steps (nothing was compared); train some steps first\n",
                 printable(settings.log).c_str());
    return 4;
  }
  std::fputs(to_text(result, settings).c_str(), stdout);
  return result.finding ? 1 : 0;
}

}  // namespace

void add_audit(CommandSet& commands) {
  const Command command = commands.add("audit",
                                       "recompute steps of a zeroproof train run and name the "
                                       "first one that differs from its log");
  const auto flags = std::make_shared<AuditFlags>();
  command.required("folder", flags->folder, "folder of checkpoints and the log");
  command.option("--steps", flags->steps, "as in 100..120 (default: all that the log has)");
  command.option("--world", flags->world,
                 "self or threads:N, may differ from the run (default: self)");
  command.flag("--reference", flags->by_reference,
               "recompute with the readable reference instead of production");
  command.option("--log", flags->log, "file (default: FOLDER/log.jsonl)");
  command.runs([flags] { return audit_run(*flags); });
}

}  // namespace zeroproof::verification
