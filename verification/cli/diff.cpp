#include <cstdio>

#include "common/base/error.hpp"
#include "verification/cli/commands.hpp"
#include "verification/compare/tensors/set_report.hpp"
#include "verification/interfaces/files/golden_call.hpp"
#include "verification/model/recorded.hpp"
#include "verification/report/report_files.hpp"

namespace zeroproof::verification {
namespace {

constexpr const char* diff_schema = "zeroproof-diff/1";

struct DiffFlags {
  std::string first, second, json_file;
  bool rows = false;
};

/// Differing entries of the metadata; they describe the origin of the numbers and are not compared
/// as numbers.
std::vector<std::string> other_metadata(const SafeMetadata& first, const SafeMetadata& second) {
  std::vector<std::string> keys;
  for (const auto& [key, text] : first) {
    const auto found = second.find(key);
    if (found == second.end() || found->second != text) keys.push_back(key);
  }
  for (const auto& entry : second) {
    if (first.count(entry.first) == 0) keys.push_back(entry.first);
  }
  return keys;
}

std::string json_text(const DiffFlags& flags, const SetComparison& comparison,
                      const std::vector<std::string>& metadata) {
  Json tensors = Json::array();
  for (const TensorDifference& tensor : comparison.tensors)
    tensors.push_back(to_json_value(tensor));
  const Json json = {{"schema", diff_schema},
                     {"first", flags.first},
                     {"second", flags.second},
                     {"equal", comparison.equal()},
                     {"total", to_json_value(comparison.totals)},
                     {"metadata_differing", Json(metadata)},
                     {"tensors", tensors}};
  return json.dump(1) + "\n";
}

int diff(const DiffFlags& flags) {
  if (!flags.json_file.empty()) check_report_file(flags.json_file);
  check_not_input(flags.json_file, {flags.first, flags.second});
  const auto first = SafetensorsReader::open(flags.first, workload::recording_limits());
  const auto second = SafetensorsReader::open(flags.second, workload::recording_limits());
  ZP_CHECK(!first.header().tensors.empty() || !second.header().tensors.empty(), ErrorCode::io,
           "neither file has a tensor", "nothing would be compared",
           "name files with tensors in them");
  const SetComparison comparison =
      compare_sets(first, second, pairs_by_name(first.header(), second.header()));
  const std::vector<std::string> metadata = other_metadata(first.metadata(), second.metadata());
  std::fputs(set_table(comparison, "the first file", "the second file", flags.rows).c_str(),
             stdout);
  if (!comparison.equal()) std::fputs(bounds_of_results(flags.first, flags.second).c_str(), stdout);
  if (!comparison.totals.same_bits && comparison.totals.differing == 0) {
    std::puts("some NaNs have different bits; all NaNs count as one value");
  }
  if (!metadata.empty()) {
    std::printf("metadata differs in %zu %s, which is not compared: %s\n", metadata.size(),
                metadata.size() == 1 ? "entry" : "entries", shown_name(metadata.front()).c_str());
  }
  if (!flags.json_file.empty()) {
    write_report_file(flags.json_file, json_text(flags, comparison, metadata));
    std::printf("report: %s\n", flags.json_file.c_str());
  }
  return comparison.equal() ? 0 : 1;
}

}  // namespace

void add_diff(CommandSet& commands) {
  const Command command = commands.add("diff",
                                       "compare two safetensors files tensor by tensor: equal "
                                       "bits, ulps, absolute and relative differences");
  const auto flags = std::make_shared<DiffFlags>();
  command.required("first", flags->first, "safetensors file");
  command.required("second", flags->second, "safetensors file");
  command.option("--json", flags->json_file, "file for all results (schema zeroproof-diff/1)");
  command.flag("--rows", flags->rows, "a row for every tensor, including equal ones");
  command.runs([flags] { return diff(*flags); });
}

}  // namespace zeroproof::verification
