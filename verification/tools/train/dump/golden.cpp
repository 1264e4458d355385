#include "verification/tools/train/dump/golden.hpp"

#include <algorithm>
#include <ctime>
#include <filesystem>

#include "common/base/error.hpp"
#include "common/io/files/replacing_file.hpp"
#include "verification/cases/recorded.hpp"
#include "verification/cli/program/capabilities.hpp"
#include "verification/cli/program/contract_version.hpp"
#include "verification/cli/program/file_digest.hpp"
#include "verification/cli/program/temporary_file.hpp"
#include "verification/tools/train/dump/dump.hpp"

namespace zeroproof::verification {
namespace {

namespace fs = std::filesystem;

const std::string program = "zeroproof " ZP_VERSION;

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[16];
  std::strftime(text, sizeof(text), "%Y-%m-%d", &parts);
  return text;
}

std::string text_digest(const workload::Text& text) {
  return to_hex(raw_digest(text.bytes.data(), static_cast<std::int64_t>(text.bytes.size())));
}

/// A path relative to the golden file, so that both can be moved together.
std::string seen_from(const std::string& file, const std::string& path) {
  return fs::relative(path, fs::absolute(file).parent_path()).string();
}

std::string resolved(const std::string& file, const std::string& path) {
  return (fs::absolute(file).parent_path() / path).lexically_normal().string();
}

std::vector<std::pair<std::string, std::string>> environment() {
  std::vector<std::pair<std::string, std::string>> found;
  for (const Capability& c : capabilities()) {
    if (c.name == "compiler" || c.name == "fp environment" || c.name == "instruction sets") {
      found.emplace_back(c.name, c.detail);
    }
  }
  return found;
}

/// The settings of a golden file's run, and its input.
RunConfig config_of(const GoldenRecord& record, const std::string& file) {
  const std::string gradients = record.gradients.empty() ? "" : resolved(file, record.gradients);
  RunConfig config =
      gradients.empty() ? workload_defaults(record.workload) : recorded_defaults(gradients);
  const std::string own_text = config.text;
  apply_toml(config, record.settings, golden_record_name(file) + ", settings");
  config.text = record.text.empty() ? own_text : resolved(file, record.text);
  validate(config);
  if (!gradients.empty()) check_recorded(config, gradients);
  ZP_CHECK(record.steps.back() <= config.steps, ErrorCode::io,
           "golden record " + golden_record_name(file) + " has step " +
               std::to_string(record.steps.back()) + " of a run of " + std::to_string(config.steps),
           "there is no such step", "restore it, or record the file again");
  return config;
}

Experiment experiment_of(const GoldenRecord& record, const std::string& file) {
  const RunConfig config = config_of(record, file);
  const std::string gradients = record.gradients.empty() ? "" : resolved(file, record.gradients);
  workload::Text text = gradients.empty() ? load_text(config) : recorded_text(gradients);
  const std::string input = gradients.empty() ? text_digest(text) : file_digest(gradients);
  ZP_CHECK(input == record.input, ErrorCode::config,
           (gradients.empty() ? "text " + text.path : "gradients " + gradients) +
               " are not the input that " + file + " was made from",
           "other input gives other numbers",
           "restore the old one, or record a golden file of the new one");
  return {record.workload, config, record.dtype, std::move(text), record.recipe};
}

/// Runs, writes the dump, and then the record that describes it.
void write_golden(const Experiment& experiment, GoldenRecord& record, const std::string& file,
                  const std::string& reason) {
  const DumpPlan plan(experiment);
  const TrainingTrace trace =
      write_dump(experiment, plan, plan.tensors(record.steps), file, record.case_id);
  write_golden_record(record, file, to_hex(*trace.hash), reason);
}

}  // namespace

void write_golden_record(GoldenRecord& record, const std::string& file,
                         const std::string& trajectory, const std::string& reason) {
  record.contract_version = contract_version;
  record.program = program;
  record.environment = environment();
  record.digest = file_digest(file);
  record.trajectory = trajectory;
  record.history.push_back({today(), program, contract_version, record.trajectory, reason});
  ReplacingFile sidecar(golden_record_name(file));
  const std::string text = to_toml(record);
  sidecar.write(0, std::as_bytes(Span<const char>(text)));
  sidecar.commit();
}

GoldenRecord golden_record_of(const std::string& file) {
  const GoldenRecord record = read_golden_record(golden_record_name(file));
  ZP_CHECK(
      file_digest(file) == record.digest, ErrorCode::io,
      "golden file " + file + " is not the one that " + golden_record_name(file) + " describes",
      "one of the two was changed without the other", "restore both");
  return record;
}

std::vector<std::string> changed_environment(const GoldenRecord& record) {
  std::vector<std::string> changes;
  const auto now = environment();
  for (const auto& [name, was] : record.environment) {
    const auto found = std::ranges::find(now, name, &std::pair<std::string, std::string>::first);
    const std::string is = found == now.end() ? "not known" : found->second;
    if (is != was) changes.push_back(name + " was " + was + ", is " + is);
  }
  if (record.program != program)
    changes.push_back("program was " + record.program + ", is " + program);
  return changes;
}

void require_no_golden(const std::string& file) {
  for (const std::string& path : {file, golden_record_name(file)}) {
    ZP_CHECK(!fs::exists(path), ErrorCode::config, path + " is there already",
             "a golden file is only changed with a reason",
             "use zeroproof golden update FILE --reason TEXT, or another name");
  }
}

std::string_view name(GoldenVerdict verdict) {
  if (verdict == GoldenVerdict::equal) return "equal";
  return verdict == GoldenVerdict::bits_changed ? "bits changed within bound" : "wrong";
}

std::optional<double> contract_bound(BufferId buffer) {
  const std::string_view exactness = exactness_class(buffer);
  ZP_CHECK(exactness == "bitwise" || exactness == "ordered" || exactness == "integer",
           ErrorCode::internal,
           "buffer " + std::string(name(buffer)) + " is of class " + std::string(exactness),
           "its bits are not fixed, and no bound for their difference is derived",
           "derive the bound in papers/ and return it here");
  return std::nullopt;
}

GoldenVerdict golden_verdict(const BufferRow& row, const BoundOf& bound_of) {
  if (row.equal()) return GoldenVerdict::equal;
  const std::optional<double> bound = bound_of(row.id);
  const bool within =
      bound && row.totals.unmatched_tensors == 0 && row.totals.absolute.greatest.value <= *bound;
  return within ? GoldenVerdict::bits_changed : GoldenVerdict::wrong;
}

GoldenVerdict GoldenCheck::verdict() const {
  GoldenVerdict worst = extra.empty() ? GoldenVerdict::equal : GoldenVerdict::wrong;
  for (const BufferRow& row : rows) worst = std::max(worst, golden_verdict(row));
  return worst;
}

GoldenRecord record_golden(const VerifyOptions& options, const CaseSpec& spec,
                           const std::vector<std::int64_t>& steps, const std::string& file) {
  require_no_golden(file);
  const RunConfig settings = verification::config_of(options, spec);
  const Experiment experiment = experiment_of(options, spec);
  GoldenRecord record;
  record.case_id = spec.id();
  record.workload = spec.workload;
  record.recipe = spec.recipe;
  record.dtype = spec.dtype;
  record.steps = steps;
  record.settings = dump_metadata(experiment, "").at("settings");
  if (!options.gradients.empty()) {
    record.gradients = seen_from(file, options.gradients);
    record.input = file_digest(options.gradients);
  } else {
    const bool own = settings.text == workload_defaults(spec.workload).text;
    record.text = own ? "" : seen_from(file, settings.text);
    record.input = text_digest(load_text(settings));
  }
  write_golden(experiment, record, file, "recorded");
  return record;
}

GoldenCheck check_golden(const std::string& file) {
  GoldenCheck check{golden_record_of(file), {}, {}, "", ""};
  const GoldenRecord& record = check.record;
  ZP_CHECK(record.contract_version == contract_version, ErrorCode::config,
           "golden file " + file + " is of contract " + std::to_string(record.contract_version) +
               " and this program of contract " + std::to_string(contract_version),
           "its bits have another meaning",
           "use zeroproof golden update " + file + " --reason TEXT");
  check.environment = changed_environment(record);
  const Experiment experiment = experiment_of(record, file);
  const DumpPlan plan(experiment);
  const std::vector<DumpTensor> tensors = plan.tensors(record.steps);
  const TemporaryFile now("the numbers that are compared with " + file + " are kept there");
  write_dump(experiment, plan, tensors, now.path(), record.case_id);

  const auto golden = SafetensorsReader::open(file, workload::recording_limits());
  const auto made = SafetensorsReader::open(now.path(), workload::recording_limits());
  std::vector<TensorPair> pairs;
  for (const DumpTensor& tensor : tensors) {
    pairs.push_back({tensor.spec.name, golden.find(tensor.spec.name), made.find(tensor.spec.name)});
  }
  for (const SafeTensor& tensor : golden.header().tensors) {
    if (made.find(tensor.name) == nullptr) check.extra = tensor.name;
  }
  const SetComparison comparison = compare_sets(golden, made, pairs);
  check.rows = buffer_rows(plan, tensors, comparison);
  check.first = first_difference(plan, tensors, comparison);
  return check;
}

GoldenRecord update_golden(const std::string& file, const std::string& reason) {
  GoldenRecord record = golden_record_of(file);
  write_golden(experiment_of(record, file), record, file, reason);
  return record;
}

}  // namespace zeroproof::verification
