#pragma once
// Random settings of a verify run from all available ones. A number gives the same settings on
// every machine.

#include <cstdint>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "common/base/philox.hpp"
#include "common/layout/peer_layouts.hpp"
#include "common/step/lr_schedule.hpp"
#include "common/step/muon_names.hpp"
#include "common/step/policy.hpp"
#include "verification/cases/config/config.hpp"
#include "verification/cases/experiment.hpp"
#include "verification/cases/recipes.hpp"

namespace zeroproof::tests {

struct DrawnConfig {
  std::uint64_t number = 0;
  std::vector<std::string> words;  ///< of the command line, after verify
  std::string toml;                ///< for --config
  std::map<std::string, std::string>
      settings;         ///< setting -> value, also those that have their default
  std::string illegal;  ///< the reason for which it must be refused, "" if it must run
  bool uneven = false;  ///< it may be refused because TP ranks have other buckets (R18)
};

/// Builder of one configuration. Draws values that the documents allow, and occasionally values
/// that they forbid.
class ConfigDraw {
 public:
  explicit ConfigDraw(std::uint64_t number) : philox_(number, 0x436F6E66) {
    drawn_.number = number;
  }

  DrawnConfig make() {
    model();
    ranks();
    step();
    gradients();
    optimizer();
    rates();
    run();
    if (!configured_) leave_out_replaced();
    forbidden();
    drawn_.toml = toml_text();
    return drawn_;
  }

 private:
  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(philox_.below(index_++, static_cast<std::uint64_t>(bound)));
  }
  bool chance(int percent) { return below(100) < percent; }
  template <class T>
  T one_of(const std::vector<T>& values) {
    return values[below(static_cast<std::int64_t>(values.size()))];
  }
  std::string one_name(Span<const std::string_view> names) {
    return std::string(names[below(static_cast<std::int64_t>(names.size()))]);
  }
  const std::string& of(const std::string& setting) { return drawn_.settings[setting]; }

  void flag(const std::string& name, const std::string& value) {
    drawn_.words.push_back("--" + name);
    drawn_.words.push_back(value);
    drawn_.settings[name] = value;
  }
  /// key: "section.name".
  void set(const std::string& key, const std::string& value) {
    const std::size_t dot = key.find('.');
    toml_[key.substr(0, dot)] += key.substr(dot + 1) + " = " + value + "\n";
    drawn_.settings[key] = value;
  }
  void set_name(const std::string& key, const std::string& value) { set(key, '"' + value + '"'); }

  void model() {
    const bool main_job = chance(5);
    drawn_.words.push_back(main_job ? "byte_gpt" : "byte_gpt_tiny");
    drawn_.settings["workload"] = drawn_.words.back();
    four_heads_ = main_job || chance(45);
    if (!four_heads_) return;
    set("model.layers", std::to_string(1 + below(2)));
    set("model.width", "20");
    set("model.heads", "4");
    set("model.hidden", one_of<std::string>({"24", "37"}));
    set("model.context", one_of<std::string>({"8", "13", "16"}));
  }

  void ranks() {
    struct Shape {
      int dp, cp, tp;
    };
    const std::vector<Shape> with_tp = {{1, 1, 2}, {2, 1, 2}, {1, 2, 2}, {1, 1, 4},
                                        {2, 2, 2}, {1, 2, 4}, {3, 1, 2}};
    const std::vector<Shape> with_cp = {{1, 2, 1}, {2, 2, 1}, {3, 2, 1},
                                        {1, 4, 1}, {2, 4, 1}, {1, 8, 1}};
    Shape shape{static_cast<int>(one_of<int>({1, 1, 2, 2, 3, 4, 4, 5, 6, 8})), 1, 1};
    const bool grid = chance(45);
    if (grid)
      shape = four_heads_ && chance(60) ? one_of(with_tp) : chance(85) ? one_of(with_cp) : shape;
    cp_ = shape.cp;
    tp_ = shape.tp;
    data_ranks_ = shape.dp * shape.cp;
    const int world = data_ranks_ * tp_;
    flag("world", world == 1 && chance(60) ? "self" : "threads:" + std::to_string(world));
    if (grid) {
      flag("grid",
           std::to_string(shape.dp) + "x" + std::to_string(cp_) + "x" + std::to_string(tp_));
    }
    drawn_.settings["ranks"] = std::to_string(world);
    std::vector<int> divisors;
    for (int i = 1; i <= data_ranks_; ++i) {
      if (data_ranks_ % i == 0) divisors.push_back(i);
    }
    if (chance(30)) instances_ = one_of(divisors);
    if (instances_ > 1) flag("instances", std::to_string(instances_));
    flag("threads", one_of<std::string>({"1", "1", "2", "3"}));
  }

  void step() {
    const bool fused = chance(40);
    flag("impl", fused ? "host-fused" : "host");
    free_ = fused;
    if (chance(30)) {
      free_ = chance(50);
      flag("mode", free_ ? "free" : "lockstep");
    }
    flag("stage", std::to_string(below(4)));
    flag("bucket", one_of<std::string>({"1024", "2048", "4096", "16384", "262144"}));
    if (chance(60)) flag("order", one_name(names_of(MicroBatchOrder{})));
    if (chance(40)) flag("layout", one_name(names_of(LayoutKind{})));
    if (chance(30)) flag("persistent", one_of<std::string>({"15", "37", "600", "1000000"}));
    if (chance(35)) {
      drawn_.words.push_back("--overlap");
      drawn_.settings["overlap"] = "on";
    }
    flag("dtype", one_of<std::string>({"bf16", "fp32", "fp16"}));
    if ((cp_ > 1 || tp_ > 1) && of("dtype") == "fp16" && chance(90)) {
      drawn_.words.back() = drawn_.settings["dtype"] = "bf16";
    }
  }

  void gradients() {
    if (chance(50)) flag("sum", one_name(names_of(GradSum{})));
    const bool cuts = tp_ > 1 || (!of("layout").empty() && of("layout") != "contract");
    std::string norm = one_name(names_of(NormForm{}));
    if (cuts && norm == "chunk1024" && chance(95)) norm = "exact";
    if (cuts || chance(50)) flag("norm", norm);
    flag("micro-batches", std::to_string(1 + below(9)));
    if (chance(40)) set_name("run.loss_reduction", one_name(names_of(LossReduction{})));
    if (chance(30)) set("run.idle_tensors", "true");
    if (chance(40)) set_name("run.missing_grad", one_name(names_of(MissingGrad{})));
    if (chance(40)) set_name("run.initial_state", one_of<std::string>({"zero", "seeded"}));
    const bool bf16 = of("dtype") == "bf16";
    if (chance(bf16 ? 50 : 2)) set_name("run.param_rounding", "stochastic");
  }

  void muon() {
    if (chance(70)) {
      set("optimizer.momentum", one_of<std::string>({"0.5", "0.95"}));
      if (chance(60)) set("optimizer.nesterov", "true");
    }
    if (chance(50)) set_name("muon.family", one_name(names_of(MomentumFamily{})));
    if (chance(60)) set_name("muon.coefficients", one_name(names_of(NewtonSchulzSet{})));
    if (chance(40)) set("muon.steps", one_of<std::string>({"1", "3", "8"}));
    if (chance(50)) set_name("muon.form", one_name(names_of(PolynomialForm{})));
    if (chance(40)) set_name("muon.factors", one_name(names_of(MatrixFactors{})));
    if (chance(30)) set_name("muon.floor", one_name(names_of(NormFloor{})));
    if (chance(50)) set_name("muon.scale", one_name(names_of(MuonScale{})));
    if (chance(60)) set_name("muon.owners", one_name(names_of(MatrixOwners{})));
    if (chance(30)) set("muon.adamw", "[]");
  }

  void optimizer() {
    const std::vector<std::string> others = {"adamw",
                                             "adam",
                                             "sgd",
                                             "sgd_ema",
                                             "sgd-plain",
                                             "sgd-nesterov",
                                             "adamw-amsgrad",
                                             "adam-amsgrad-max",
                                             "adamw-unclipped",
                                             "adamw-tokens",
                                             "adamw-idle",
                                             "sgd-idle-zero",
                                             "adamw-stochastic",
                                             "adamw-propagate",
                                             "adamw-groups",
                                             "muon",
                                             "muon-heavy-max"};
    configured_ = chance(60);
    if (!configured_) {
      std::string recipe = one_of(others);
      if (recipe == "adamw-stochastic" && of("dtype") != "bf16") recipe = "adamw-tokens";
      return flag("recipe", recipe);
    }
    const std::string rule = one_name(names_of(UpdateRule{}));
    set_name("optimizer.rule", rule);
    flag("recipe", rule);
    const bool adam = rule == "adamw" || rule == "adam";
    if (!adam) set("optimizer.lr", one_of<std::string>({"0.3", "0.1"}));
    if (chance(30)) set("optimizer.beta1", one_of<std::string>({"0.0", "0.5", "0.95"}));
    if (chance(30))
      set("optimizer.beta2", one_of<std::string>({"0", "0.25", "0.5", "0.9", "0.999"}));
    if (chance(30)) set("optimizer.eps", one_of<std::string>({"1e-6", "1e-3", "1e-15"}));
    if (chance(40)) set("optimizer.weight_decay", one_of<std::string>({"0.0", "0.1", "1.0"}));
    if (chance(30)) set("optimizer.bias_correction", "false");
    if (chance(20)) set("optimizer.maximize", "true");
    if (adam && chance(30)) set("optimizer.amsgrad", "true");
    if (rule == "muon") muon();
    if (rule == "sgd" && chance(70)) {
      set("optimizer.momentum", one_of<std::string>({"0.5", "0.9", "1.0"}));
      if (chance(40)) {
        set("optimizer.nesterov", "true");
      } else if (chance(50)) {
        set("optimizer.dampening", one_of<std::string>({"0.3", "1.0"}));
      }
    }
    if (chance(25)) set("optimizer.clip_value", one_of<std::string>({"0.01", "1e-4", "10.0"}));
    if (chance(40)) set("optimizer.max_norm", one_of<std::string>({"0", "0.01", "0.3"}));
  }

  void rates() {
    if (!configured_) return;
    if (chance(35)) {
      set_name("schedule.unit", one_name(names_of(ScheduleUnit{})));
      const std::int64_t warmup = below(4);
      set("schedule.warmup", std::to_string(warmup));
      set("schedule.warmup_init_lr", "1e-4");
      if (chance(30)) set("schedule.first_is_zero", "true");
      set_name("schedule.warmup_shape", one_name(names_of(WarmupShape{})));
      const Span<const std::string_view> decays = names_of(DecayShape{});
      set_name("schedule.decay",
               one_name(decays.first(decays.size() - 1)));  // a table is not combined
      const std::int64_t length = 1 + below(6);
      set("schedule.decay_end", std::to_string(warmup + length));
      set("schedule.min_lr", "1e-4");
      set("schedule.wsd_decay", std::to_string(below(length + 1)));
      set_name("schedule.wsd_shape", one_name(names_of(WsdShape{})));
      set_name("schedule.weight_decay_ramp", one_name(names_of(RampShape{})));
      set("schedule.weight_decay_begin", "0.05");
      set("schedule.weight_decay_end", std::to_string(1 + below(4)));
    } else if (chance(15)) {
      set_name("schedule.decay", "table");
      set("schedule.rates",
          "[1e-3, 2e-3, 0.0, 5e-4, 1e-4, 3e-3, 1e-3, 2e-3, 1e-4, 0.0, 3e-3, 5e-4, 1e-3, 2e-3]");
    }
    if (!chance(30)) return;
    groups_ = "[[param_group]]\nname = \"vectors\"\nvectors = true\nweight_decay_mult = 0.0\n";
    if (chance(60))
      groups_ += "[[param_group]]\nname = \"up\"\nmatch = [\"*.mlp.up.*\"]\nlr_mult = 0.5\n";
    drawn_.settings["param_group"] = groups_.find("mlp") == std::string::npos ? "1" : "2";
  }

  void run() {
    const std::int64_t steps = 2 + below(3);
    flag("steps", std::to_string(steps));
    flag("seed", std::to_string(1 + philox_.below(index_++, std::uint64_t{1} << 62)));
    std::string reaction = "skip";
    if (configured_ && chance(40))
      set_name("run.on_nonfinite", reaction = one_name(names_of(OnNonfinite{})));
    const bool scaler = of("dtype") == "fp16";
    if (scaler) {
      const bool stays = reaction == "error" || chance(30);
      set_name("loss_scaler.kind", stays ? one_of<std::string>({"constant", "none"}) : "dynamic");
      set("loss_scaler.initial_loss_scale", one_of<std::string>({"1", "16", "256"}));
      if (chance(50)) set("loss_scaler.growth_interval", std::to_string(1 + below(3)));
      if (chance(50)) set("loss_scaler.hysteresis", std::to_string(1 + below(2)));
      if (chance(50))
        set_name("loss_scaler.hysteresis_refill", one_of<std::string>({"growth", "good_step"}));
    }
    // A dynamic scaler is judged only if it encounters an overflow; a run that stops at an overflow
    // must not.
    const bool overflows = reaction != "error" && (scaler || chance(50));
    set("run.overflow_step", std::to_string(overflows ? 1 + below(steps) : 0));
    if (overflows && chance(50))
      set_name("run.overflow_tensor", one_of<std::string>({"token_embedding.weight", ""}));
  }

  /// A setting that the recipe replaces is refused.
  void leave_out_replaced() {
    const RunConfig plain = verification::workload_defaults(of("workload"));
    for (;;) {
      RunConfig config = plain;
      apply_toml(config, toml_text(), "drawn.toml");
      const std::string key = verification::ignored_setting(plain, config, of("recipe"));
      if (key.empty()) return;
      const std::size_t dot = key.find('.');
      std::string& lines = toml_[key.substr(0, dot)];
      const std::size_t at = lines.find(key.substr(dot + 1) + " = ");
      lines.erase(at, lines.find('\n', at) + 1 - at);
      drawn_.settings.erase(key);
    }
  }

  void forbidden() {
    const std::string sum = of("sum");
    const std::string layout = of("layout");
    const bool cuts = tp_ > 1 || (!layout.empty() && layout != "contract");
    const std::string norm = of("norm");
    const std::string recipe = of("recipe");
    const bool brings_norm = recipe == "sgd-plain" || recipe == "adam-amsgrad-max" ||
                             (!configured_ && (recipe == "sgd" || recipe == "sgd_ema"));
    const auto forbid = [&](bool applies, const char* why) {
      if (applies && drawn_.illegal.empty()) drawn_.illegal = why;
    };
    drawn_.uneven = tp_ > 1 && drawn_.settings["model.hidden"] == "37";
    forbid(cuts && (norm == "chunk1024" || (norm.empty() && !brings_norm)),
           "chunk1024 with cut chunks");
    forbid((cp_ > 1 || tp_ > 1) && of("dtype") == "fp16", "fp16 leaves in parts");
    forbid(sum == "binned" && data_ranks_ / instances_ % cp_ != 0,
           "CP parts of a bin in two instances");
    forbid(of("run.param_rounding") == "\"stochastic\"" && of("dtype") != "bf16",
           "stochastic without bf16");
  }

  std::string toml_text() const {
    std::ostringstream text;
    for (const auto& [section, lines] : toml_) text << '[' << section << "]\n" << lines;
    return text.str() + groups_;
  }

  Philox philox_;
  std::uint64_t index_ = 0;
  DrawnConfig drawn_;
  std::map<std::string, std::string> toml_;  // section -> lines
  std::string groups_;
  bool four_heads_ = false, configured_ = true, free_ = false;
  int cp_ = 1, tp_ = 1, data_ranks_ = 1, instances_ = 1;
};

inline DrawnConfig draw_config(std::uint64_t number) { return ConfigDraw(number).make(); }

}  // namespace zeroproof::tests
