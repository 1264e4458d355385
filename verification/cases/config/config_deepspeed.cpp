// DeepSpeed's JSON in place of a configuration file: refused, with its settings in this project's terms.

#include <algorithm>
#include <array>
#include <cmath>

#include "common/base/error.hpp"
#include "common/io/json.hpp"
#include "verification/cases/config/config.hpp"

namespace zeroproof {
namespace {

/// The member of a path like "fp16.hysteresis"; null if there is none.
Json member(const Json& config, std::string_view path) {
  const std::size_t dot = path.find('.');
  const std::string_view key = path.substr(0, dot);
  if (!config.contains(key)) return {};  // also of values that are no objects
  return dot == std::string_view::npos ? config.at(key)
                                       : member(config.at(key), path.substr(dot + 1));
}

constexpr std::string_view initial_scale_power = "fp16.initial_scale_power";  // of two

/// A key of DeepSpeed and what is written here instead, with {} for its value.
struct Translation {
  std::string_view theirs, ours;
};
constexpr std::array in_toml = {
    Translation{"optimizer.params.lr", "optimizer.lr = {}"},
    Translation{"optimizer.params.eps", "optimizer.eps = {}"},
    Translation{"optimizer.params.weight_decay", "optimizer.weight_decay = {}"},
    Translation{"gradient_clipping", "optimizer.max_norm = {}"},
    Translation{"gradient_accumulation_steps", "run.micro_batches = {} times the ranks"},
    Translation{initial_scale_power, "loss_scaler.initial_loss_scale = {}"},
    Translation{"fp16.loss_scale_window", "loss_scaler.growth_interval = {}"},
    Translation{"fp16.hysteresis", "loss_scaler.hysteresis = {}"},
    Translation{"fp16.min_loss_scale", "loss_scaler.min_loss_scale = {}"}};
constexpr std::array as_flags = {
    Translation{"zero_optimization.stage", "--stage {}"},
    Translation{"zero_optimization.reduce_bucket_size", "--bucket {}"}};

/// A value as TOML and flags have it: 5e8 is 500000000, and a power of two its number.
std::string value_text(const Json& value, bool is_power) {
  const bool number = value.kind() == Json::Kind::real || value.kind() == Json::Kind::integer ||
                      value.kind() == Json::Kind::unsigned_integer;
  if (!number) return value.dump();
  const double x = is_power ? std::exp2(value.get<double>()) : value.get<double>();
  const bool whole = x == std::floor(x) && std::fabs(x) < 0x1p62;
  return whole      ? std::to_string(static_cast<std::int64_t>(x))
         : is_power ? "2^" + value.dump()
                    : value.dump();
}

template <class Table>
std::string translated(const Json& config, const Table& table, const char* between) {
  std::string text;
  for (const Translation& one : table) {
    const Json value = member(config, one.theirs);
    if (value.is_null() || value.kind() == Json::Kind::text) continue;  // "auto"
    std::string ours(one.ours);
    text += (text.empty() ? "" : between) +
            ours.replace(ours.find("{}"), 2, value_text(value, one.theirs == initial_scale_power));
  }
  return text;
}

bool is_enabled(const Json& config, const char* path) {
  const Json value = member(config, path);
  return value.kind() == Json::Kind::boolean && value.get<bool>();
}

}  // namespace

void refuse_deepspeed(std::string_view text, const std::string& file_name) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || text[first] != '{') return;
  Json config;
  try {
    config = Json::parse(text);
  } catch (const JsonError&) {
    return;
  }
  const auto known = {
      "zero_optimization", "fp16",     "bf16", "train_batch_size", "train_micro_batch_size_per_gpu",
      "gradient_clipping", "optimizer"};
  const bool theirs =
      std::ranges::any_of(known, [&](const char* key) { return config.contains(key); });
  std::string flags = translated(config, as_flags, " ");
  for (const auto& [path, flag] :
       {std::pair{"fp16.enabled", "--dtype fp16"}, std::pair{"bf16.enabled", "--dtype bf16"}}) {
    if (is_enabled(config, path)) flags += (flags.empty() ? "" : " ") + std::string(flag);
  }
  const std::string settings = translated(config, in_toml, ", ");
  fail(ErrorCode::config, file_name + (theirs ? " is a configuration of DeepSpeed" : " is JSON"),
       "settings are TOML, with other names",
       settings.empty() && flags.empty()
           ? "write a TOML file (zeroproof list --settings)"
           : (settings.empty() ? "" : "write " + settings + " in TOML") +
                 (settings.empty() || flags.empty() ? "" : ", and ") +
                 (flags.empty() ? "" : "give " + flags));
}

}  // namespace zeroproof
