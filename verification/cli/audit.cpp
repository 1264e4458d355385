// zeroproof audit: recomputes a run and compares it with its log.

#include <charconv>
#include <cstdio>
#include <memory>

#include "common/base/error.hpp"
#include "common/base/printable.hpp"
#include "verification/cli/commands.hpp"
#include "verification/report/progress.hpp"
#include "verification/tools/train/checkpoints/audit.hpp"

namespace zeroproof::verification {
namespace {

struct AuditFlags {
  std::string folder, steps, world = "self", log;
  bool by_reference = false;
};

/// "100..120" or "100".
void parse_steps(const std::string& text, AuditSettings& settings) {
  const char* const end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, settings.first);
  bool good = error == std::errc{} && settings.first > 0;
  settings.last = settings.first;
  if (good && rest != end) {
    good = text.compare(static_cast<std::size_t>(rest - text.data()), 2, "..") == 0;
    if (good) {
      const auto second = std::from_chars(rest + 2, end, settings.last);
      good = second.ec == std::errc{} && second.ptr == end && settings.last >= settings.first;
    }
  }
  ZP_CHECK(good, ErrorCode::config, "--steps is '" + text + "'",
           "expected a step or a range of steps", "use a form as in --steps 100..120");
}

int audit_run(const AuditFlags& flags) {
  AuditSettings settings;
  ZP_CHECK(!flags.folder.empty(), ErrorCode::config, "the folder's name is empty",
           "an audit needs a folder", "name the folder of a training's checkpoints");
  settings.folder = flags.folder;
  settings.log = flags.log.empty() ? flags.folder + "/log.jsonl" : flags.log;
  if (!flags.steps.empty()) parse_steps(flags.steps, settings);
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
