// TOML into RunConfig, one row per key. The rows are also the list of valid keys.

#include <algorithm>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "verification/cases/config/config.hpp"
#include "verification/cases/config/nearest.hpp"
#include "verification/cases/config/toml_value.hpp"

namespace zeroproof {
namespace {

LossScalerKind scaler_kind(const Value& v) {
  const std::string text = v.string();
  if (text == "dynamic") return LossScalerKind::dynamic;
  if (text == "constant") return LossScalerKind::constant;
  if (text == "none") return LossScalerKind::none;
  v.reject("\"dynamic\", \"constant\" or \"none\"");
}

HysteresisRefill refill(const Value& v) {
  const std::string text = v.string();
  if (text == "growth") return HysteresisRefill::growth;
  if (text == "good_step") return HysteresisRefill::good_step;
  v.reject("\"growth\" or \"good_step\"");
}

InitialState initial_state(const Value& v) {
  const std::string text = v.string();
  if (text == "zero") return InitialState::zero;
  if (text == "seeded") return InitialState::seeded;
  v.reject("\"zero\" or \"seeded\"");
}

DType param_dtype(const Value& v) {
  const std::string text = v.string();
  for (const DType dtype : param_dtypes) {
    if (name(dtype) == text) return dtype;
  }
  v.reject("\"bf16\", \"fp16\", \"fp32\", \"e4m3\" or \"e5m2\"");
}

int small(const Value& v) { return v.small(); }

Keys<RunConfig> run_keys() {
  return {
      {"run.seed",
       [](RunConfig& c, const Value& v) {
         c.seed = static_cast<std::uint64_t>(v.integer(0, INT64_MAX));
       }},
      {"run.steps",
       [](RunConfig& c, const Value& v) { c.steps = v.integer(INT64_MIN, INT64_MAX); }},
      {"run.micro_batches",
       [](RunConfig& c, const Value& v) { c.micro_batches = v.integer(INT64_MIN, INT64_MAX); }},
      {"run.stages", [](RunConfig& c, const Value& v) { c.stages = v.list<int>(small); }},
      {"run.worlds",
       [](RunConfig& c, const Value& v) {
         c.worlds = v.list<std::string>([](const Value& item) { return item.string(); });
       }},
      {"run.grids",
       [](RunConfig& c, const Value& v) {
         c.grids = v.list<std::string>([](const Value& item) { return item.string(); }, true);
       }},
      {"run.orders",
       [](RunConfig& c, const Value& v) {
         c.orders = v.list<MicroBatchOrder>(choice<MicroBatchOrder>);
       }},
      {"run.layouts",
       [](RunConfig& c, const Value& v) { c.layouts = v.list<LayoutKind>(choice<LayoutKind>); }},
      {"run.windows",
       [](RunConfig& c, const Value& v) { c.windows = v.list<Windows>(choice<Windows>); }},
      {"run.wires",
       [](RunConfig& c, const Value& v) { c.transport = v.list<Transport>(choice<Transport>); }},
      {"run.grad_sums",
       [](RunConfig& c, const Value& v) { c.grad_sums = v.list<GradSum>(choice<GradSum>); }},
      {"run.instances", [](RunConfig& c, const Value& v) { c.instances = v.small(); }},
      {"run.persistent_numel",
       [](RunConfig& c, const Value& v) { c.persistent_numel = v.integer(INT64_MIN, INT64_MAX); }},
      {"run.overlap", [](RunConfig& c, const Value& v) { c.overlap = v.boolean(); }},
      {"run.dtypes", [](RunConfig& c, const Value& v) { c.dtypes = v.list<DType>(param_dtype); }},
      {"run.bucket_numels",
       [](RunConfig& c, const Value& v) {
         c.bucket_numels =
             v.list<std::int64_t>([](const Value& i) { return i.integer(INT64_MIN, INT64_MAX); });
       }},
      {"run.omp_threads", [](RunConfig& c, const Value& v) { c.omp_threads = v.list<int>(small); }},
      {"run.initial_state",
       [](RunConfig& c, const Value& v) { c.initial_state = initial_state(v); }},
      {"run.initial_step",
       [](RunConfig& c, const Value& v) { c.initial_step = v.integer(INT64_MIN, INT64_MAX); }},
      {"run.overflow_step",
       [](RunConfig& c, const Value& v) { c.overflow_step = v.integer(INT64_MIN, INT64_MAX); }},
      {"run.overflow_tensor", [](RunConfig& c, const Value& v) { c.overflow_tensor = v.string(); }},
      {"run.idle_tensors", [](RunConfig& c, const Value& v) { c.idle_tensors = v.boolean(); }},
      {"run.loss_reduction",
       [](RunConfig& c, const Value& v) { c.loss_reduction = choice<LossReduction>(v); }},
      {"run.on_nonfinite",
       [](RunConfig& c, const Value& v) { c.on_nonfinite = choice<OnNonfinite>(v); }},
      {"run.missing_grad",
       [](RunConfig& c, const Value& v) { c.missing_grad = choice<MissingGrad>(v); }},
      {"run.param_rounding",
       [](RunConfig& c, const Value& v) { c.param_rounding = choice<ParamRounding>(v); }},
      {"run.text", [](RunConfig& c, const Value& v) { c.text = v.string(); }},
      {"run.comm_timeout_s", [](RunConfig& c, const Value& v) { c.comm_timeout_s = v.number(); }},
  };
}

std::vector<bool> booleans(const Value& v) {
  return v.list<bool>([](const Value& item) { return item.boolean(); });
}

Keys<RunConfig> offload_keys() {
  return {
      {"offload.fractions",
       [](RunConfig& c, const Value& v) {
         c.offload.fractions = v.list<double>([](const Value& item) { return item.number(); });
       }},
      {"offload.orders",
       [](RunConfig& c, const Value& v) {
         c.offload.orders = v.list<OffloadOrder>(choice<OffloadOrder>);
       }},
      {"offload.places",
       [](RunConfig& c, const Value& v) {
         c.offload.places = v.list<OffloadPlace>(choice<OffloadPlace>);
       }},
      {"offload.chunk_numels",
       [](RunConfig& c, const Value& v) {
         c.offload.chunk_numels =
             v.list<std::int64_t>([](const Value& i) { return i.integer(INT64_MIN, INT64_MAX); });
       }},
      {"offload.overlaps", [](RunConfig& c, const Value& v) { c.offload.overlaps = booleans(v); }},
      {"offload.grads", [](RunConfig& c, const Value& v) { c.offload.grads = booleans(v); }},
      {"offload.folder", [](RunConfig& c, const Value& v) { c.offload.folder = v.string(); }},
  };
}

Keys<RunConfig> training_keys() {
  return {
      {"model.layers", [](RunConfig& c, const Value& v) { c.model.layers = v.small(); }},
      {"model.width", [](RunConfig& c, const Value& v) { c.model.width = v.small(); }},
      {"model.heads", [](RunConfig& c, const Value& v) { c.model.heads = v.small(); }},
      {"model.hidden", [](RunConfig& c, const Value& v) { c.model.hidden = v.small(); }},
      {"model.context", [](RunConfig& c, const Value& v) { c.model.context = v.small(); }},
      {"optimizer.lr", [](RunConfig& c, const Value& v) { c.optimizer.lr = v.number(); }},
      // R5: the betas become fp32 here, once.
      {"optimizer.beta1",
       [](RunConfig& c, const Value& v) { c.optimizer.beta1 = static_cast<float>(v.number()); }},
      {"optimizer.beta2",
       [](RunConfig& c, const Value& v) { c.optimizer.beta2 = static_cast<float>(v.number()); }},
      {"optimizer.eps", [](RunConfig& c, const Value& v) { c.optimizer.eps = v.number(); }},
      {"optimizer.weight_decay",
       [](RunConfig& c, const Value& v) { c.optimizer.weight_decay = v.number(); }},
      {"optimizer.bias_correction",
       [](RunConfig& c, const Value& v) { c.optimizer.bias_correction = v.boolean(); }},
      {"optimizer.rule",
       [](RunConfig& c, const Value& v) { c.optimizer.rule = choice<UpdateRule>(v); }},
      {"optimizer.amsgrad",
       [](RunConfig& c, const Value& v) { c.optimizer.amsgrad = v.boolean(); }},
      {"optimizer.maximize",
       [](RunConfig& c, const Value& v) { c.optimizer.maximize = v.boolean(); }},
      {"optimizer.momentum",
       [](RunConfig& c, const Value& v) { c.optimizer.momentum = v.number(); }},
      {"optimizer.dampening",
       [](RunConfig& c, const Value& v) { c.optimizer.dampening = v.number(); }},
      {"optimizer.nesterov",
       [](RunConfig& c, const Value& v) { c.optimizer.nesterov = v.boolean(); }},
      {"optimizer.norm",
       [](RunConfig& c, const Value& v) { c.optimizer.norm = choice<NormForm>(v); }},
      {"optimizer.clip_value",
       [](RunConfig& c, const Value& v) {
         // TOML has no null, so 0 means absent here, as it does for max_norm.
         const double value = v.number();
         c.optimizer.clip_value = value == 0 ? std::nullopt : std::optional(value);
       }},
      {"optimizer.max_norm",
       [](RunConfig& c, const Value& v) { c.optimizer.max_norm = v.number(); }},
      {"optimizer.exp_avg_dtype",
       [](RunConfig& c, const Value& v) { c.state_formats.exp_avg = choice<StateFormat>(v); }},
      {"optimizer.exp_avg_sq_dtype",
       [](RunConfig& c, const Value& v) { c.state_formats.exp_avg_sq = choice<StateFormat>(v); }},
      {"optimizer.master_dtype",
       [](RunConfig& c, const Value& v) { c.state_formats.master = choice<MasterFormat>(v); }},
      {"loss_scaler.kind", [](RunConfig& c, const Value& v) { c.scaler.kind = scaler_kind(v); }},
      {"loss_scaler.initial_loss_scale",
       [](RunConfig& c, const Value& v) { c.scaler.log2_initial = v.exponent_of_power_of_two(); }},
      {"loss_scaler.growth_factor",
       [](RunConfig& c, const Value& v) {
         c.scaler.log2_growth = v.exponent_of_power_of_two();
         if (c.scaler.log2_growth < 1) v.reject("a power of two above 1");
       }},
      {"loss_scaler.backoff_factor",
       [](RunConfig& c, const Value& v) {
         c.scaler.log2_backoff = -v.exponent_of_power_of_two();
         if (c.scaler.log2_backoff < 1) v.reject("a power of two below 1");
       }},
      {"loss_scaler.min_loss_scale",
       [](RunConfig& c, const Value& v) { c.scaler.log2_min = v.exponent_of_power_of_two(); }},
      {"loss_scaler.max_loss_scale",
       [](RunConfig& c, const Value& v) { c.scaler.log2_max = v.exponent_of_power_of_two(); }},
      {"loss_scaler.growth_interval",
       [](RunConfig& c, const Value& v) { c.scaler.growth_interval = v.small(); }},
      {"loss_scaler.hysteresis",
       [](RunConfig& c, const Value& v) { c.scaler.hysteresis = v.small(); }},
      {"loss_scaler.hysteresis_refill",
       [](RunConfig& c, const Value& v) { c.scaler.refill = refill(v); }},
  };
}

TomlFile parse(std::string_view text, const std::string& file_name) {
  try {
    return TomlFile(text, file_name);
  } catch (const TomlError& error) {
    fail(ErrorCode::config,
         file_name + ":" + std::to_string(error.line) + ": not valid TOML: " + error.what(),
         "the settings cannot be read",
         "correct that line; verification/cases/config/defaults.toml is an example");
  }
}

/// The settings of one file, applied key by key.
class Reader {
 public:
  Reader(RunConfig& config, const std::string& file)
      : config_(config), file_(file), keys_(run_keys()) {
    for (const auto& key : offload_keys()) keys_.push_back(key);
    for (const auto& key : training_keys()) keys_.push_back(key);
    for (const auto& key : schedule_keys()) keys_.push_back(key);
    for (const auto& key : scaling_keys()) keys_.push_back(key);
    for (const auto& key : muon_keys()) keys_.push_back(key);
    for (const auto& key : keys_) names_.emplace_back(key.name);
    for (const auto& key : group_keys_) names_.emplace_back(key.name);
    for (const auto& key : clip_group_keys_) names_.emplace_back(key.name);
    for (const auto& key : matrix_split_keys_) names_.emplace_back(key.name);
  }

  void section(const std::string& prefix, const TomlNode& node) const {
    if (prefix == "param_group") return groups(prefix, node, group_keys_, config_.param_groups);
    if (prefix == "clip_group") return groups(prefix, node, clip_group_keys_, config_.clip_groups);
    if (prefix == "matrix_split")
      return groups(prefix, node, matrix_split_keys_, config_.matrix_splits);
    const bool known = std::any_of(names_.begin(), names_.end(), [&](const std::string& name) {
      return name.rfind(prefix + ".", 0) == 0;
    });
    // Also "run.steps" = 7, a quoted key at the top, and a misspelt section that is still empty.
    if (!node.is_table() || (!known && node.members().empty())) unknown(prefix, node);
    apply(keys_, config_, prefix, node);
  }

 private:
  template <class Rule>
  void groups(const std::string& section, const TomlNode& node, const Keys<Rule>& keys,
              std::vector<Rule>& rules) const {
    rules = Value{node, section, file_}.list<Rule>(
        [&](const Value& item) {
          Rule rule;
          if (!item.node.is_table()) item.reject("a table, one [[" + section + "]] for each group");
          apply(keys, rule, section, item.node);
          return rule;
        },
        true);
  }

  template <class Target>
  void apply(const Keys<Target>& keys, Target& target, const std::string& prefix,
             const TomlNode& table) const {
    for (const auto& [name, node] : table.members()) {
      std::string key = prefix;
      key.append(".").append(name);
      const auto row = std::find_if(keys.begin(), keys.end(),
                                    [&](const auto& candidate) { return candidate.name == key; });
      if (row == keys.end()) unknown(key, node);
      row->set(target, Value{node, key, file_});
    }
  }

  [[noreturn]] void unknown(const std::string& key, const TomlNode& node) const {
    const std::string place = file_ + ":" + std::to_string(node.line());
    fail(ErrorCode::config, place + ": unknown key " + key, "a misspelt setting would be ignored",
         remedy(key));
  }

  /// In an existing section only the rest of the key can be wrong.
  std::string remedy(const std::string& key) const {
    const std::string section = key.substr(0, key.find('.') + 1);
    std::vector<std::string> rest;
    for (const std::string& name : names_) {
      if (!section.empty() && name.rfind(section, 0) == 0)
        rest.push_back(name.substr(section.size()));
    }
    const std::string near =
        rest.empty() ? nearest(key, names_) : nearest(key.substr(section.size()), rest);
    if (near.empty()) return "verification/cases/config/defaults.toml shows all";
    return "did you mean " + (rest.empty() ? "" : section) + near + "?";
  }

  RunConfig& config_;
  const std::string& file_;
  Keys<RunConfig> keys_;
  const Keys<GroupRule> group_keys_ = param_group_keys();
  const Keys<ClipGroupRule> clip_group_keys_ = zeroproof::clip_group_keys();
  const Keys<MatrixSplitRule> matrix_split_keys_ = zeroproof::matrix_split_keys();
  std::vector<std::string> names_;
};

}  // namespace

void apply_toml(RunConfig& config, std::string_view text, const std::string& file_name) {
  const Reader reader(config, file_name);
  const TomlFile file = parse(text, file_name);
  for (const auto& [section, node] : file.root().members()) reader.section(section, node);
}

}  // namespace zeroproof
