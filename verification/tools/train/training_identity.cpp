#include "verification/tools/train/training_identity.hpp"

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "common/base/error.hpp"
#include "verification/cases/config/config_write.hpp"

namespace zeroproof::verification {
namespace {

/// The settings on which the bits of a step depend. The number of steps, the ranks, and settings of
/// memory and speed have their defaults. The order of sums is included: sums in bins have other
/// bits.
std::string settings_of(const Experiment& experiment) {
  RunConfig config = experiment.config();
  const RunConfig defaults = workload_defaults(workload_names().front());
  config.steps = defaults.steps;
  config.stages = defaults.stages;
  config.worlds = defaults.worlds;
  config.grids = defaults.grids;
  config.orders = defaults.orders;
  config.layouts = defaults.layouts;
  config.windows = {Windows::off};  // the text of all earlier checkpoints
  config.transport = defaults.transport;
  config.instances = defaults.instances;
  config.persistent_numel = defaults.persistent_numel;
  config.matrix_owners = defaults.matrix_owners;
  config.matrix_tensor_parallel = defaults.matrix_tensor_parallel;
  config.overlap = defaults.overlap;
  config.bucket_numels = defaults.bucket_numels;
  config.omp_threads = defaults.omp_threads;
  config.comm_timeout_s = defaults.comm_timeout_s;
  config.dtypes = {experiment.param_dtype()};
  config.text.clear();  // its digest replaces it
  return to_toml_without_offload(config);
}

std::string absolute(const std::string& file) {
  return file.empty() ? "" : std::filesystem::absolute(file).string();
}

/// "optimizer.lr = 0.002", line by line, without comments.
std::vector<std::string> named_lines(const std::string& toml) {
  std::vector<std::string> lines;
  std::istringstream text(toml);
  std::string section;
  for (std::string line; std::getline(text, line);) {
    if (line.empty() || line[0] == '#') continue;
    if (line[0] == '[') {
      section =
          line.substr(line.find_first_not_of('['), line.find(']') - line.find_first_not_of('['));
      lines.push_back(line);
    } else {
      lines.push_back((section.empty() ? "" : section + ".") + line);
    }
  }
  return lines;
}

std::string text_of(const Json& identity, const char* key, const std::string& label) {
  const bool there = identity.contains(key) && identity.at(key).kind() == Json::Kind::text;
  ZP_CHECK(there, ErrorCode::damaged, label + " has no " + key, "it may belong to another training",
           "take a checkpoint that zeroproof train wrote");
  return identity.at(key).get<std::string>();
}

/// "optimizer.rule = 'muon'", "" if there is no such line.
std::string rule_line(const std::vector<std::string>& lines) {
  const auto found = std::ranges::find_if(
      lines, [](const std::string& line) { return line.starts_with("optimizer.rule = "); });
  return found == lines.end() ? "" : *found;
}

}  // namespace

Json training_identity(const Experiment& experiment, const CaseSpec& spec,
                       const std::string& gradients) {
  Json identity = Json::object();
  identity["workload"] = experiment.workload();
  identity["recipe"] = experiment.recipe();
  identity["dtype"] = std::string(name(experiment.param_dtype()));
  identity["settings"] = settings_of(experiment);
  identity["text"] = to_hex(experiment.text_digest());
  // The workload's own text is part of every program.
  const std::string& text_file = experiment.config().text;
  const bool own = gradients.empty() && text_file == workload_defaults(experiment.workload()).text;
  identity["text_file"] = own ? "" : absolute(text_file);
  identity["gradients"] = absolute(gradients);
  identity["place"] = spec.id();
  return identity;
}

std::string training_digest(const Json& identity) {
  std::string all;
  for (const char* key : {"workload", "dtype", "settings", "text"})
    all += identity.at(key).get<std::string>() + '\n';
  return to_hex(raw_digest(all.data(), static_cast<std::int64_t>(all.size())));
}

void require_same_training(const Json& saved, const Json& mine, const std::string& label) {
  const auto refuse = [&](const std::string& what) {
    fail(ErrorCode::config, label + " is of another training: " + what,
         "the run would be neither of the two", "give the settings of the run that wrote it");
  };
  for (const char* key : {"workload", "dtype"}) {
    const std::string there = text_of(saved, key, label), here = text_of(mine, key, label);
    if (there != here)
      refuse(std::string("its ") + key + " is " + there + ", and here it is " + here);
  }
  const std::vector<std::string> there = named_lines(text_of(saved, "settings", label));
  const std::vector<std::string> here = named_lines(text_of(mine, "settings", label));
  // Rules have lines of their own, so they are compared first.
  if (rule_line(there) != rule_line(here))
    refuse("it has " + rule_line(there) + ", and here it is " + rule_line(here));
  for (std::size_t i = 0; i < std::max(there.size(), here.size()); ++i) {
    const std::string a = i < there.size() ? there[i] : "nothing more",
                      b = i < here.size() ? here[i] : "nothing";
    if (a != b) refuse("it has " + a + ", and here it is " + b);
  }
  if (text_of(saved, "text", label) != text_of(mine, "text", label))
    refuse("it was trained on other bytes (its text, or its recorded gradients)");
}

}  // namespace zeroproof::verification
