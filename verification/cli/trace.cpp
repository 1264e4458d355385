#include "verification/trace/trace.hpp"

#include <unistd.h>

#include <charconv>
#include <cstdio>

#include "common/base/error.hpp"
#include "verification/cli/commands.hpp"
#include "verification/config/config.hpp"
#include "verification/config/nearest.hpp"
#include "verification/report/progress.hpp"
#include "verification/report/report_files.hpp"

namespace zeroproof::verification {
namespace {

struct TraceFlags {
  std::string stage = "2", world = "2", micro_batches = "4", rule = "adamw", folder, json_file;
};

int whole_number(const std::string& text, const std::string& flag) {
  int value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  ZP_CHECK(error == std::errc{} && rest == text.data() + text.size(), ErrorCode::config,
           flag + " is '" + text + "'", "that is not a number it can use",
           "write digits, as in " + flag + " 2");
  return value;
}

UpdateRule rule_named(const std::string& text) {
  const auto names = names_of(UpdateRule{});
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == text) return static_cast<UpdateRule>(i);
  }
  fail(ErrorCode::config, "rule '" + text + "' does not exist", "it says how the master is updated",
       suggestion(text, {names.begin(), names.end()}));
}

int run_trace(const TraceFlags& flags) {
  const TraceSettings settings{whole_number(flags.stage, "--stage"), whole_number(flags.world, "--world"),
                               whole_number(flags.micro_batches, "--micro-batches"), rule_named(flags.rule)};
  std::vector<std::string> files;
  if (!flags.json_file.empty()) files.push_back(flags.json_file);
  if (!flags.folder.empty()) {
    for (const char* file : {"/trace.txt", "/memory_map.txt", "/timeline.json"})
      files.push_back(flags.folder + file);
  }
  for (const std::string& file : files) check_report_file(file);
  const StepTrace trace = trace_step(settings);
  if (!flags.json_file.empty()) write_report_file(flags.json_file, timeline_json(trace));
  if (!flags.folder.empty()) {
    write_report_file(flags.folder + "/trace.txt", trace_text(trace, false));
    write_report_file(flags.folder + "/memory_map.txt", memory_map_text(trace));
    write_report_file(flags.folder + "/timeline.json", timeline_json(trace));
  }
  std::string out;
  if (flags.folder.empty())
    out = trace_text(trace, wants_colour(STDOUT_FILENO)) + "\n" + memory_map_text(trace);
  for (const std::string& file : files) out += "written: " + file + "\n";
  std::fputs(out.c_str(), stdout);
  return 0;
}

}  // namespace

void add_trace(CommandSet& commands) {
  const Command command = commands.add(
      "trace",
      "one step of a model of 16 parameters: every value of every phase on every rank, who holds what, when");
  const auto flags = std::make_shared<TraceFlags>();
  command.option("--stage", flags->stage, "ZeRO stage, 0 to 3 (default: 2)");
  command.option("--world", flags->world, "ranks, as threads, 1 to 4 (default: 2)");
  command.option("--micro-batches", flags->micro_batches, "micro-batches of the step, 1 to 16 (default: 4)");
  command.option("--rule", flags->rule, listed(names_of(UpdateRule{})) + " (default: adamw)");
  command.option("--out", flags->folder,
                 "folder for trace.txt, memory_map.txt and timeline.json, instead of printing");
  command.option("--json", flags->json_file,
                 "file for the timeline (Chrome trace events; ui.perfetto.dev opens it)");
  command.runs([flags] { return run_trace(*flags); });
}

}  // namespace zeroproof::verification
