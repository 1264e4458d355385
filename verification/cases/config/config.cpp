#include "verification/cases/config/config.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "common/base/error.hpp"
#include "common/io/files/regular_file.hpp"
#include "verification/cases/config/nearest.hpp"

namespace zeroproof {

RunConfig main_config() {
  RunConfig config;
  config.optimizer.lr = 2e-3;
  config.optimizer.beta2 = 0.95F;
  // The initial scale is too large for the fp16 gradients of this model, so the first two steps
  // overflow. The second overflow uses up the hysteresis, and 2^12 is then low enough for the three
  // growths of the remaining steps.
  config.scaler.kind = LossScalerKind::dynamic;
  config.scaler.log2_initial = 20;
  config.scaler.log2_backoff = 8;
  config.scaler.growth_interval = 5;
  config.scaler.hysteresis = 2;
  config.scaler.log2_max = 24;
  return config;
}

void apply_toml_file(RunConfig& config, const std::string& path) {
  require_regular_file(path, "configuration file");
  std::ifstream file(path, std::ios::binary);
  ZP_CHECK(file.good(), ErrorCode::config, "configuration file " + path + " cannot be read",
           "the file has the settings of the run", "check the path and its permissions");
  std::ostringstream content;
  if (file.peek() != std::ifstream::traits_type::eof()) content << file.rdbuf();
  ZP_CHECK(!file.bad() && content.good(), ErrorCode::config,
           "configuration file " + path + " cannot be read", "a read failed",
           "check the disk and run again");
  refuse_deepspeed(content.str(), path);
  apply_toml(config, content.str(), path);
}

DType parse_param_dtype(const std::string& text) {
  std::vector<std::string> names;
  for (const DType dtype : param_dtypes) {
    if (name(dtype) == text) return dtype;
    names.emplace_back(name(dtype));
  }
  fail(ErrorCode::config, "parameter dtype '" + text + "' does not exist",
       "it is the format that every step casts to",
       suggestion(text, names, "use bf16, fp16, fp32, e4m3 or e5m2"));
}

std::size_t index_of_name(const std::string& key, const std::string& text,
                          Span<const std::string_view> names) {
  std::vector<std::string> choices;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == text) return i;
    choices.emplace_back(names[i]);
  }
  const std::string near = nearest(text, choices);
  fail(ErrorCode::config, key + " '" + text + "' does not exist", "it must be " + one_of(names),
       near.empty() ? "use one of them" : "did you mean \"" + near + "\"?");
}

std::string one_of(Span<const std::string_view> names) {
  std::string list;
  for (std::size_t i = 0; i < names.size(); ++i) {
    list += i == 0 ? "" : i + 1 == names.size() ? " or " : ", ";
    list.append("\"").append(names[i]).append("\"");
  }
  return list;
}

}  // namespace zeroproof
