// zeroproof attribute: the first operation whose bits changed between two recordings of a program.

#include <cstdio>
#include <memory>

#include "verification/cli/commands.hpp"
#include "verification/report/report_files.hpp"
#include "verification/tools/attribute/attribution_report.hpp"

namespace zeroproof::verification {
namespace {

struct AttributeFlags {
  std::string before, after, json_file;
};

int attribute_recordings(const AttributeFlags& flags) {
  if (!flags.json_file.empty()) check_report_file(flags.json_file);
  check_not_input(flags.json_file, {flags.before, flags.after});
  const std::vector<RankAttribution> ranks = attribute_files(flags.before, flags.after);
  for (const RankAttribution& rank : ranks)
    check_not_input(flags.json_file, {rank.before.path, rank.after.path});
  std::fputs(attribution_text(ranks).c_str(), stdout);
  if (!flags.json_file.empty()) {
    write_report_file(flags.json_file, attribution_json(ranks).dump(1) + "\n");
    std::printf("report: %s\n", flags.json_file.c_str());
  }
  return first_of(ranks).found.verdict == AttributionVerdict::equal ? 0 : 1;
}

}  // namespace

void add_attribute(CommandSet& commands) {
  const Command command =
      commands.add("attribute",
                   "compare two recordings of the operations of a PyTorch program: the first one "
                   "whose bits changed, and the cause");
  const auto flags = std::make_shared<AttributeFlags>();
  command.required("old", flags->before,
                   "recording of zproof.torch.operations (verification/tools/attribute/README.md)");
  command.required("new", flags->after, "another recording of the same program");
  command.option("--json", flags->json_file,
                 "file for all results (schema zeroproof-attribution/1)");
  command.runs([flags] { return attribute_recordings(*flags); });
}

}  // namespace zeroproof::verification
