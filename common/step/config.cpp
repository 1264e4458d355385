#include "common/step/config.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <sstream>

#include "common/base/error.hpp"
#include "common/layout/flat_layout.hpp"

namespace zeroproof {
namespace {

void require(bool ok, const std::string& problem, const std::string& why, const std::string& remedy) {
  ZP_CHECK(ok, ErrorCode::config, problem, why, remedy);
}

std::string text(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof(buffer), "%.9g", value);
  return buffer;
}

void validate_optimizer(const OptimizerHyper& o) {
  require(std::isfinite(o.lr) && o.lr >= 0, "optimizer.lr is " + text(o.lr), "it scales every update",
          "use a finite number of 0 or more");
  for (const auto& [key, beta] : {std::pair{"beta1", o.beta1}, std::pair{"beta2", o.beta2}}) {
    require(beta >= 0 && beta < 1, std::string("optimizer.") + key + " is " + text(beta),
            "it is the weight of the past in a moving average", "use a value in [0, 1)");
  }
  for (const auto& [key, beta] : {std::pair{"beta1", o.beta1}, std::pair{"beta2", o.beta2}}) {
    require(1.0 - static_cast<double>(beta) >= 0x1p-23, std::string("optimizer.") + key + " is " + text(beta),
            "in fp32 1 - beta would be less than 2^-23, rule R5", "use a smaller value");
  }
  require(1.0 - static_cast<double>(o.beta2) <= 0.5, "optimizer.beta2 is " + text(o.beta2),
          "rule R5 needs 1 - beta2 <= 1/2", "use 0.5 or more");
  require(std::isfinite(o.eps) && static_cast<float>(o.eps) >= 0x1p-126F, "optimizer.eps is " + text(o.eps),
          "the update divides by sqrt(v) + eps, and v can be 0",
          "use a normal positive fp32 number such as 1e-8");
  require(std::isfinite(o.weight_decay) && o.weight_decay >= 0,
          "optimizer.weight_decay is " + text(o.weight_decay), "it pulls every parameter towards zero",
          "use a finite number of 0 or more");
  for (const auto& [key, value] : {std::pair{"momentum", o.momentum}, std::pair{"dampening", o.dampening}}) {
    require(value >= 0 && value <= 1, std::string("optimizer.") + key + " is " + text(value),
            "it is a weight of the momentum buffer's sum", "use a value in [0, 1]");
  }
  require(o.rule == UpdateRule::sgd || (o.momentum == 0 && o.dampening == 0),
          "optimizer.momentum or dampening is set with the rule " + std::string(name(o.rule)),
          "only sgd has a momentum buffer", "set optimizer.rule to \"sgd\", or leave both at 0");
  require(!o.nesterov || (o.rule == UpdateRule::sgd && o.momentum > 0 && o.dampening == 0),
          "optimizer.nesterov is true", "it looks ahead along a momentum buffer that is not dampened",
          "use the rule sgd with momentum above 0 and dampening 0");
  require(!o.amsgrad || o.rule == UpdateRule::adamw || o.rule == UpdateRule::adam,
          "optimizer.amsgrad is true with the rule " + std::string(name(o.rule)),
          "that rule has no second moment to take the maximum of", "use adamw or adam");
  require(!o.clip_value || (std::isfinite(*o.clip_value) && static_cast<float>(*o.clip_value) > 0 &&
                            std::isfinite(static_cast<float>(*o.clip_value))),
          "optimizer.clip_value is " + text(o.clip_value.value_or(0)),
          "every element is clipped to plus or minus this", "use a positive fp32 number, or leave it out");
  require(!o.max_norm || (std::isfinite(*o.max_norm) && *o.max_norm >= 0),
          "optimizer.max_norm is " + text(o.max_norm.value_or(0)),
          "a negative limit would turn every gradient around", "use a positive number, or 0 for no clipping");
}

void validate_model(const ModelConfig& m) {
  for (const auto& [key, value] :
       {std::pair{"layers", m.layers}, std::pair{"width", m.width}, std::pair{"heads", m.heads},
        std::pair{"hidden", m.hidden}, std::pair{"context", m.context}}) {
    require(value >= 1 && value <= 65536, std::string("model.") + key + " is " + std::to_string(value),
            "every dimension of the model counts something", "use a value from 1 to 65536");
  }
  require(
      m.width % m.heads == 0,
      "model.width " + std::to_string(m.width) + " does not divide by model.heads " + std::to_string(m.heads),
      "every head has width / heads channels", "change one of the two");
}

void validate_scaler(const LossScalerConfig& s, std::int64_t divisor, bool tokens) {
  for (const auto& [key, value] :
       {std::pair{"growth_interval", s.growth_interval}, std::pair{"hysteresis", s.hysteresis}}) {
    require(value >= 1, std::string("loss_scaler.") + key + " is " + std::to_string(value), "it counts steps",
            "use 1 or more");
  }
  require(s.log2_growth >= 1, "loss_scaler.growth_factor is 2^" + std::to_string(s.log2_growth),
          "the scale must grow by it", "use 2 or more");
  require(s.log2_backoff >= 1, "loss_scaler.backoff_factor is 2^" + std::to_string(-s.log2_backoff),
          "the scale must shrink by it", "use 0.5 or less");
  require(s.log2_min <= s.log2_initial && s.log2_initial <= s.log2_max,
          "loss_scaler.initial_loss_scale 2^" + std::to_string(s.log2_initial) + " is outside 2^" +
              std::to_string(s.log2_min) + " to 2^" + std::to_string(s.log2_max),
          "the scale never leaves that range", "move min_loss_scale, max_loss_scale or the initial value");
  require(s.log2_min >= -126, "loss_scaler.min_loss_scale is 2^" + std::to_string(s.log2_min),
          "its product with the divisor of the gradient sum must stay a normal fp32 number, rule R5",
          "use 2^-126 or more");
  require(std::ldexp(static_cast<double>(divisor), s.log2_max) <= 0x1p126,
          "loss_scaler.max_loss_scale is 2^" + std::to_string(s.log2_max),
          "times " + std::to_string(divisor) + (tokens ? " tokens" : " micro-batches") +
              " it exceeds 2^126, rule R5",
          "lower max_loss_scale");
}

}  // namespace

RunConfig main_config() {
  RunConfig config;
  config.optimizer.lr = 2e-3;
  config.optimizer.beta2 = 0.95F;
  // The scale starts above what fp16 leaves of this model can hold, so the first two steps overflow by
  // arithmetic. The second one uses up the hysteresis, and 2^12 is then low enough for the three growths of
  // the remaining steps.
  config.scaler.kind = LossScalerKind::dynamic;
  config.scaler.log2_initial = 20;
  config.scaler.log2_backoff = 8;
  config.scaler.growth_interval = 5;
  config.scaler.hysteresis = 2;
  config.scaler.log2_max = 24;
  return config;
}

RunConfig tiny_config() {
  RunConfig config = main_config();
  config.steps = 6;
  config.micro_batches = 7;  // three nodes are left to fold, the smallest number whose order matters
  config.worlds = {"self", "threads:3", "mpi:2"};
  config.bucket_numels = {4096};
  config.initial_state = InitialState::seeded;
  config.model = {2, 15, 3, 37, 13};
  config.optimizer.lr = 1e-2;
  config.optimizer.max_norm = 0.52;  // binds on some steps only
  // One element on one rank overflows, in every dtype: a check that misses an element or a rank shows.
  config.overflow_step = 3;
  config.scaler.log2_initial = 12;
  config.scaler.log2_backoff = 1;
  config.scaler.hysteresis = 1;
  config.scaler.growth_interval = 2;
  return config;
}

void apply_toml_file(RunConfig& config, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  require(file.good(), "configuration file " + path + " cannot be read", "the run needs its settings",
          "check the path and its permissions");
  std::ostringstream content;
  try {
    if (file.peek() != std::ifstream::traits_type::eof()) content << file.rdbuf();
  } catch (const std::ios_base::failure&) {  // libstdc++ throws for a directory, whatever the exception mask
    file.setstate(std::ios::badbit);
  }
  require(!file.bad() && content.good(), "configuration file " + path + " cannot be read",
          "reading it failed midway", "name a file you may read, not a directory");
  apply_toml(config, content.str(), path);
}

void validate(const RunConfig& config) {
  require(config.steps >= 1 && config.steps <= 1'000'000, "run.steps is " + std::to_string(config.steps),
          "a run of no steps proves nothing", "use a value from 1 to 1000000");
  require(config.micro_batches >= 1 && config.micro_batches <= 1 << 20,
          "run.micro_batches is " + std::to_string(config.micro_batches),
          "the gradient is a mean over micro-batches", "use a value from 1 to 1048576");
  require(!config.stages.empty() && !config.worlds.empty() && !config.dtypes.empty() &&
              !config.bucket_numels.empty() && !config.omp_threads.empty(),
          "one of run.stages, worlds, dtypes, bucket_numels, omp_threads is empty", "nothing would be judged",
          "give at least one value each");
  require(config.overflow_step >= 0, "run.overflow_step is " + std::to_string(config.overflow_step),
          "it is the number of a step", "use 0 (never) or the number of a step");
  for (const int stage : config.stages) {
    require(stage >= 0 && stage <= 3, "ZeRO stage " + std::to_string(stage) + " does not exist",
            "the stages are 0, 1, 2 and 3", "use 0, 1 or 2");
    require(stage <= 2, "ZeRO stage 3 is not part of this version",
            "only stages 0, 1 and 2 have two implementations", "use 0, 1 or 2");
  }
  for (const std::int64_t bucket : config.bucket_numels) {
    require(bucket >= layout_alignment && bucket % layout_alignment == 0,
            "run.bucket_numels has " + std::to_string(bucket),
            "buckets are cut at multiples of 1024 elements", "use a positive multiple of 1024");
  }
  for (const int threads : config.omp_threads) {
    require(threads >= 0 && threads <= 1024, "run.omp_threads has " + std::to_string(threads),
            "it counts worker threads of one rank", "use 0 (choose for me) to 1024");
  }
  require(config.comm_timeout_s > 0 && config.comm_timeout_s <= 86400,
          "run.comm_timeout_s is " + text(config.comm_timeout_s), "ranks wait that long for each other",
          "use more than 0 and at most 86400 seconds");
  for (const DType dtype : config.dtypes) {
    require(config.param_rounding == ParamRounding::nearest || dtype == DType::bf16,
            "run.param_rounding is \"stochastic\" with " + std::string(name(dtype)) + " parameters",
            "stochastic rounding is defined for bf16 only",
            "set run.dtypes to [\"bf16\"], or round to nearest");
  }
  validate_model(config.model);
  validate_optimizer(config.optimizer);
  const bool tokens = config.loss_reduction == LossReduction::tokens;
  validate_scaler(config.scaler, config.micro_batches * (tokens ? config.model.context : 1), tokens);
}

DType parse_param_dtype(const std::string& text) {
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    if (name(dtype) == text) return dtype;
  }
  fail(ErrorCode::config, "parameter dtype '" + text + "' does not exist",
       "it decides the cast of every step", "use bf16, fp16 or fp32");
}

std::string nearest(std::string_view word, const std::vector<std::string>& choices) {
  const auto distance = [&](std::string_view other) {
    std::vector<std::size_t> row(other.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= word.size(); ++i) {
      std::size_t diagonal = row[0];
      row[0] = i;
      for (std::size_t j = 1; j <= other.size(); ++j) {
        const std::size_t substituted = diagonal + (word[i - 1] == other[j - 1] ? 0 : 1);
        diagonal = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
      }
    }
    return row.back();
  };
  // Somebody who typed only the beginning meant what it begins.
  for (const std::string& choice : choices) {
    if (word.size() >= 3 && choice.rfind(word, 0) == 0) return choice;
  }
  const auto best =
      std::min_element(choices.begin(), choices.end(),
                       [&](const std::string& a, const std::string& b) { return distance(a) < distance(b); });
  return best == choices.end() ? "" : *best;
}

}  // namespace zeroproof
