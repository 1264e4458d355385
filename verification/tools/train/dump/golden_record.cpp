#include "verification/tools/train/dump/golden_record.hpp"

#include <filesystem>

#include "common/base/digest.hpp"
#include "common/base/error.hpp"
#include "common/base/printable.hpp"
#include "common/io/files/byte_source.hpp"
#include "verification/cases/config/config.hpp"
#include "verification/cases/config/toml.hpp"

namespace zeroproof::verification {
namespace {

constexpr const char* schema = "zeroproof-golden/1";
constexpr std::uint64_t largest_record = 1 << 20;  // one has some kilobytes

/// All members but the digest of the record.
Json members_of(const GoldenRecord& r) {
  Json environment = Json::object();
  for (const auto& [name, value] : r.environment) environment[name] = value;
  Json history = Json::array();
  for (const GoldenReason& entry : r.history) {
    history.push_back(Json{{"date", entry.date},
                           {"program", entry.program},
                           {"contract_version", entry.contract_version},
                           {"trajectory", entry.trajectory},
                           {"reason", entry.reason}});
  }
  Json members = {{"schema", schema},
                  {"case", r.case_id},
                  {"workload", r.workload},
                  {"recipe", r.recipe},
                  {"dtype", std::string(name(r.dtype))},
                  {"steps", Json(r.steps)},
                  {"settings", r.settings},
                  {"gradients", r.gradients},
                  {"text", r.text},
                  {"input", r.input},
                  {"contract_version", r.contract_version},
                  {"program", r.program},
                  {"digest", r.digest},
                  {"trajectory", r.trajectory},
                  {"environment", environment},
                  {"history", history}};
  if (!r.recorded_by.empty()) members["recorded_by"] = r.recorded_by;
  return members;
}

std::string digest_of(const Json& members) {
  const std::string text = toml_text(members);
  return to_hex(raw_digest(text.data(), static_cast<std::int64_t>(text.size())));
}

/// Members of a table, all of which are required.
class Reader {
 public:
  Reader(std::string path, TomlNode table) : path_(std::move(path)), table_(table) {}

  TomlNode member(const std::string& name) const {
    const auto node = table_.member(name);
    if (!node) refuse("has no '" + name + "'");
    return *node;
  }
  std::string text(const std::string& name) const {
    const auto value = member(name).text();
    if (!value) refuse("has a '" + name + "' that is no text");
    return *value;
  }
  std::int64_t integer(const std::string& name) const {
    const auto value = member(name).integer();
    if (!value) refuse("has a '" + name + "' that is no whole number");
    return *value;
  }
  [[noreturn]] void refuse(const std::string& what) const {
    fail(ErrorCode::io, "golden record " + path_ + " " + what, "the origin of its file is unknown",
         "restore it, or record the file again");
  }

 private:
  std::string path_;
  TomlNode table_;
};

GoldenRecord record_from(const std::string& path, TomlNode root) {
  const Reader from(path, root);
  if (from.text("schema") != schema)
    from.refuse("is of schema '" + from.text("schema") + "', not " + schema);
  GoldenRecord r;
  r.case_id = from.text("case");
  r.workload = from.text("workload");
  r.recipe = from.text("recipe");
  r.dtype = parse_param_dtype(from.text("dtype"));
  for (const TomlNode& item : from.member("steps").items()) {
    const auto step = item.integer();
    if (!step || *step < 1 || (!r.steps.empty() && *step <= r.steps.back()))
      from.refuse("has no increasing 'steps'");
    r.steps.push_back(*step);
  }
  if (r.steps.empty()) from.refuse("has no 'steps'");
  r.settings = from.text("settings");
  r.gradients = from.text("gradients");
  r.text = from.text("text");
  r.input = from.text("input");
  r.contract_version = from.integer("contract_version");
  r.program = from.text("program");
  r.digest = from.text("digest");
  r.trajectory = from.text("trajectory");
  if (root.member("recorded_by")) r.recorded_by = from.text("recorded_by");
  for (const TomlMember& entry : from.member("environment").members()) {
    const auto value = entry.node.text();
    if (!value) from.refuse("has an 'environment." + entry.name + "' that is no text");
    r.environment.emplace_back(entry.name, *value);
  }
  for (const TomlNode& item : from.member("history").items()) {
    const Reader entry(path, item);
    r.history.push_back({entry.text("date"), entry.text("program"),
                         entry.integer("contract_version"), entry.text("trajectory"),
                         entry.text("reason")});
  }
  const std::string digest = digest_of(members_of(r));
  ZP_CHECK(from.text("record_digest") == digest, ErrorCode::damaged,
           "golden record " + path + " has record_digest " + sentence(from.text("record_digest")) +
               ", and the digest of its members is " + digest,
           "one of them was changed after it was written", "restore it, or record the file again");
  return r;
}

}  // namespace

std::string golden_record_name(const std::string& file) { return file + ".toml"; }

std::string to_toml(const GoldenRecord& record) {
  Json members = members_of(record);
  members["record_digest"] = digest_of(members);
  return toml_text(members);
}

GoldenRecord read_golden_record(const std::string& path) {
  ZP_CHECK(std::filesystem::exists(path), ErrorCode::io, "there is no golden record " + path,
           "it describes how the golden file beside it was made",
           "use zeroproof golden record, or another name");
  try {
    const TomlFile file(read_small_file(path, largest_record), path);
    return record_from(path, file.root());
  } catch (const TomlError& error) {
    fail(ErrorCode::io,
         "golden record " + path + ", line " + std::to_string(error.line) + ": " +
             std::string(error.what()),
         "the origin of its file is unknown", "restore it, or record the file again");
  }
}

}  // namespace zeroproof::verification
