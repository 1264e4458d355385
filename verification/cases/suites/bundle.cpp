#include "verification/cases/suites/bundle.hpp"

#include <filesystem>

#include "common/base/error.hpp"
#include "common/io/json.hpp"
#include "cuda/host/base/isa.hpp"
#include "verification/cases/experiment.hpp"
#include "verification/cases/suites/selection.hpp"
#include "verification/cli/program/contract_version.hpp"
#include "verification/cli/program/file_text.hpp"
#include "verification/cli/program/plant.hpp"
#include "verification/report/report_files.hpp"

namespace zeroproof::verification {
namespace {

namespace fs = std::filesystem;

constexpr const char* schema = "zeroproof-bundle/1";
constexpr std::uintmax_t largest_json = 1 << 20;  // a bundle.json has about a kilobyte

/// The id as a file name, no longer than file systems allow; ids with the same beginning may share
/// it (free_name()).
std::string slug(const std::string& id) {
  constexpr std::size_t longest = 150;
  std::string text;
  for (const char c : id) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    text += plain ? c : '-';
  }
  return text.substr(0, longest);
}

fs::path free_name(const fs::path& folder, const std::string& name) {
  fs::path path = folder / name;
  for (int n = 2; fs::exists(path); ++n) path = folder / (name + "-" + std::to_string(n));
  return path;
}

std::string read_all(const fs::path& path) {
  const std::optional<std::string> text = file_text(path.string());
  ZP_CHECK(text.has_value(), ErrorCode::io, path.string() + " cannot be read",
           "a bundle holds a copy of it", "check its permissions and the disk");
  return *text;
}

/// Settings except files, whose copies are in the bundle.
Json plain_flags(const VerifyOptions& options) {
  Json flags = Json::array();
  for (std::size_t i = 0; i + 1 < options.replay_flags.size(); i += 2) {
    const std::string& flag = options.replay_flags[i];
    if (flag == "--config" || flag == "--text" || flag == "--gradients") continue;
    flags.push_back(options.replay_flags[i]);
    flags.push_back(options.replay_flags[i + 1]);
  }
  return flags;
}

Json describe_run(const RunReport& report, const VerifyOptions& options) {
  std::string compiler;
  for (const Capability& c : report.capabilities)
    compiler = c.name == "compiler" ? c.detail : compiler;
  return {{"schema", schema},
          {"program", options.fault.empty() ? "zeroproof" : "zeroproof-faults"},
          {"version", ZP_VERSION},
          {"contract", contract_version},
          {"compiler", compiler},
          {"isa", cuda::host::name(cuda::host::best_isa())},
          {"flags", plain_flags(options)}};
}

/// The training text, which may change before the case runs again.
void add_text(const RunConfig& config, const fs::path& draft, Json& json) {
  const workload::Text text = load_text(config);
  write_report_file((draft / "text.bin").string(), {text.bytes.begin(), text.bytes.end()});
  json["text_file"] = "text.bin";
}

struct Saver {
  const VerifyOptions& options;
  Json run;
  fs::path folder;
  std::vector<std::string> saved;

  /// Written under a temporary name and renamed, so that a partial bundle never looks complete.
  void save(const Result& result) {
    const fs::path target = free_name(folder, slug(result.id));
    const fs::path draft = free_name(folder, ".draft-" + slug(result.id));
    fs::create_directories(draft);
    try {
      fill(draft, result);
      fs::rename(draft, target);
    } catch (...) {
      std::error_code ignored;
      fs::remove_all(draft, ignored);
      throw;
    }
    saved.push_back(target.string());
  }

  void fill(const fs::path& draft, const Result& result) const {
    Json json = run;
    json["id"] = result.id;
    json["failure"] = failure_line(result);
    json["replay"] = result.replay;
    if (options.second_seed) {  // drawn for this run, or given
      json["flags"].push_back("--second-seed");
      json["flags"].push_back(std::to_string(*options.second_seed));
    }
    if (!options.config_file.empty()) {
      json["config_file"] = "config.toml";
      write_report_file((draft / "config.toml").string(), read_all(options.config_file));
    }
    const std::optional<RunConfig> training =
        suite_meant(result.id).trains_with(options, result.id);
    if (training && !options.gradients.empty()) {
      fs::copy_file(options.gradients, draft / "gradients.safetensors");
      json["gradients_file"] = "gradients.safetensors";
    } else if (training) {
      add_text(*training, draft, json);
    }
    if (!result.tensors.empty()) save_tensors((draft / "tensors.safetensors").string(), result);
    const std::string content = json.dump(1) + "\n";
    write_report_file((draft / "bundle.json").string(), content);
  }
};

[[noreturn]] void refuse(const std::string& path, const std::string& what,
                         const std::string& remedy) {
  fail(ErrorCode::config, "bundle " + path + " " + what, "its failure cannot be run again", remedy);
}

/// A member that names a file of the bundle's folder; paths outside the folder are refused.
std::string file_in(const fs::path& folder, const Json& json, const char* key) {
  if (!json.contains(key)) return {};
  const auto name = json.at(key).get<std::string>();
  const fs::path path = fs::absolute(folder / name);
  if (name.empty() || name.find('/') != std::string::npos || !fs::is_regular_file(path)) {
    refuse(folder.string(), "has no file " + name, "copy the whole folder");
  }
  return path.string();
}

Bundle parse(const fs::path& folder, const std::string& content) {
  const Json json = Json::parse(content);
  if (json.value("schema", "") != schema) {
    refuse(folder.string(), "has another schema than " + std::string(schema),
           "use the version that saved it");
  }
  Bundle bundle;
  bundle.id = json.at("id");
  bundle.program = json.at("program");
  bundle.version = json.at("version");
  bundle.contract = json.at("contract");
  bundle.isa = json.at("isa");
  bundle.compiler = json.at("compiler");
  bundle.flags = json.at("flags").get<std::vector<std::string>>();
  bundle.failure = json.at("failure");
  bundle.config_file = file_in(folder, json, "config_file");
  bundle.text_file = file_in(folder, json, "text_file");
  bundle.gradients_file = file_in(folder, json, "gradients_file");
  return bundle;
}

}  // namespace

std::vector<std::string> save_bundles(const RunReport& report, const VerifyOptions& options,
                                      const std::string& folder) {
  Saver saver{options, describe_run(report, options), folder, {}};
  try {
    for (const Result& result : report.results) {
      if (failed(result.status)) saver.save(result);
    }
  } catch (const fs::filesystem_error& error) {
    fail(ErrorCode::io,
         "a failing case could not be saved below " + folder + ": " + error.code().message(),
         "the failure is lost", "check the folder and the free space, and run again");
  }
  return saver.saved;
}

Bundle load_bundle(const std::string& path) {
  std::error_code error;
  const fs::path file =
      fs::is_directory(path, error) ? fs::path(path) / "bundle.json" : fs::path(path);
  const fs::path folder = file.has_parent_path() ? file.parent_path() : ".";
  if (!fs::is_regular_file(file, error))
    refuse(path, "has no bundle.json", "name a folder created by --save-failing");
  if (fs::file_size(file, error) > largest_json)
    refuse(path, "is too large", "name the bundle.json of a bundle");
  Bundle bundle;
  try {
    bundle = parse(folder, read_all(file));
  } catch (const JsonError&) {
    refuse(path, "is damaged", "save it again with verify --save-failing");
  }
  if (bundle.contract != contract_version) {
    refuse(path,
           "was saved under numeric contract " + std::to_string(bundle.contract) +
               " and this program implements " + std::to_string(contract_version),
           "use a program of that contract");
  }
  const char* here = faults_built() ? "zeroproof-faults" : "zeroproof";
  if (bundle.program == "zeroproof-faults" && !faults_built()) {
    refuse(path, std::string("was saved by ") + bundle.program + " and this is " + here,
           "use build/zeroproof-faults, which ./tests/run builds");
  }
  return bundle;
}

}  // namespace zeroproof::verification
