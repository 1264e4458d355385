#include "verification/cases/recipes.hpp"

#include <algorithm>
#include <array>

#include "common/base/error.hpp"
#include "verification/cases/config/config_write.hpp"
#include "verification/cases/config/nearest.hpp"
#include "verification/cases/config/toml.hpp"
#include "verification/cases/settings/setting.hpp"

namespace zeroproof::verification {
namespace {

/// Set by every recipe of this name, so that none runs with another configured rule.
void adamw(RunConfig& c) { c.optimizer.rule = UpdateRule::adamw; }

/// Gradients are small, so the rules without a second moment take larger steps. The rate is not a
/// power of two: lr * e would then be exact, and a contraction to fused multiply-add would not be
/// detected.
void sgd(RunConfig& c) {
  c.optimizer.rule = UpdateRule::sgd;
  c.optimizer.lr = 0.3;
}

/// Every element moves by the full learning rate in every step, so the rate is smaller and the
/// decay larger than Adam's; the moving averages are those of [Lion:defaults].
void lion(RunConfig& c) {
  c.optimizer.rule = UpdateRule::lion;
  c.optimizer.lr = 0.3 * c.optimizer.lr;
  c.optimizer.weight_decay = 3 * c.optimizer.weight_decay;
  c.optimizer.beta1 = 0.9F;
  c.optimizer.beta2 = 0.99F;
}

/// In every step an element moves by about lr times the root mean square of its tensor, which is
/// well below 1, so the rate is larger than Adam's.
void lamb(RunConfig& c) {
  c.optimizer.rule = UpdateRule::lamb;
  c.optimizer.lr = 7 * c.optimizer.lr;
}

/// Elements of an orthogonalised matrix of r rows and c columns have a root mean square near
/// 1 / sqrt(max(r, c)). match_rms_adamw makes it 0.2, about that of AdamW's updates, so that both
/// kinds of tensors train at AdamW's rate [Muon:scale]; with original, matrices would need a rate of
/// their own.
void muon(RunConfig& c) {
  c.optimizer.rule = UpdateRule::muon;
  c.optimizer.momentum = 0.95;
  c.optimizer.nesterov = true;
  c.optimizer.muon.scale = MuonScale::match_rms_adamw;
}

void fresh(RunConfig& c) { c.initial_state = InitialState::zero; }

/// Of five applied steps two are warm-up, the next two fall, and the fifth is past the end of both ramps.
void groups(RunConfig& c) {
  GroupRule vectors;
  vectors.name = "vectors";
  vectors.vectors = true;
  vectors.weight_decay_mult = 0;
  GroupRule up;
  up.name = "mlp-up";
  up.match = {"*.mlp.up.*"};
  up.lr_mult = 0.5;
  up.min_lr = 0.2 * c.optimizer.lr;
  c.param_groups = {vectors, up};
  c.schedule.unit = ScheduleUnit::samples;
  c.schedule.warmup = 2 * c.micro_batches;
  c.schedule.warmup_init_lr = 0.1 * c.optimizer.lr;
  c.schedule.decay = DecayShape::cosine;
  c.schedule.decay_end = 4 * c.micro_batches;
  c.schedule.min_lr = 0.1 * c.optimizer.lr;
  c.schedule.weight_decay_ramp = RampShape::linear;
  c.schedule.weight_decay_begin = 0.2 * c.optimizer.weight_decay;
  c.schedule.weight_decay_end = 4 * c.micro_batches;
}

constexpr DType bf16_only[] = {DType::bf16};
constexpr DType with_scales[] = {DType::e4m3, DType::e5m2};
constexpr DType with_scales_e5m2_first[] = {DType::e5m2, DType::e4m3};

/// 8-bit parameters: a norm that works with every layout, because blocks split by shards are to be
/// tested.
void scaled(RunConfig& c, const ParamScaling& scaling) {
  c.scaling = scaling;
  c.optimizer.norm = NormForm::exact;
}

constexpr std::array<Recipe, 25> all = {{
    {"adamw", "AdamW as configured", adamw},
    {"adam", "decay through the gradient, from a fresh state",
     [](RunConfig& c) {
       c.optimizer.rule = UpdateRule::adam;
       fresh(c);
     }},
    {"sgd", "momentum and dampening, from a fresh state, exact norm",
     [](RunConfig& c) {
       sgd(c);
       fresh(c);
       c.optimizer.momentum = 0.9;
       c.optimizer.dampening = 0.5;
       c.optimizer.norm = NormForm::exact;
     }},
    {"sgd_ema", "moving average of the gradient, 1-norm",
     [](RunConfig& c) {
       sgd(c);
       c.optimizer.rule = UpdateRule::sgd_ema;
       c.optimizer.norm = NormForm::one;
       c.optimizer.max_norm = 13;  // binds on some steps only
     }},
    {"lion", "the sign of a moving average, from a fresh state",
     [](RunConfig& c) {
       lion(c);
       fresh(c);
     }},
    {"lion-max", "the sign of a moving average, ascending, no decay, elements clipped, exact norm",
     [](RunConfig& c) {
       lion(c);
       c.optimizer.maximize = true;
       c.optimizer.weight_decay = 0;
       c.optimizer.clip_value = 0.01;
       c.optimizer.norm = NormForm::exact;
     }},
    {"lamb", "AdamW scaled by every tensor's trust ratio", lamb},
    {"lamb-idle-max",
     "the same, ascending, no bias correction, no decay, idle tensors left alone, exact norm",
     [](RunConfig& c) {
       lamb(c);
       c.optimizer.maximize = true;
       c.optimizer.bias_correction = false;
       c.optimizer.weight_decay = 0;
       c.optimizer.norm = NormForm::exact;
       c.idle_tensors = true;
       c.missing_grad = MissingGrad::skip;
     }},
    {"muon", "orthogonalised Nesterov momentum of matrices, AdamW of other tensors", muon},
    {"muon-heavy-max",
     "heavy ball, fp32 factors, heads one by one, balanced owners, ascending, no decay, idle "
     "tensors left alone, exact norm",
     [](RunConfig& c) {
       muon(c);
       c.optimizer.nesterov = false;
       c.optimizer.muon.family = MomentumFamily::heavy_ball;
       c.optimizer.muon.newton_schulz = {NewtonSchulzSet::polar_express,
                                         6,
                                         PolynomialForm::scaled_factor,
                                         MatrixFactors::fp32,
                                         NormFloor::add,
                                         1e-5};
       c.optimizer.muon.scale = MuonScale::spectral;
       c.optimizer.muon.scale_factor = 0.3;
       c.matrix_splits = {heads_split(c)};
       c.matrix_owners = MatrixOwners::balanced;
       c.optimizer.maximize = true;
       c.optimizer.weight_decay = 0;
       c.optimizer.norm = NormForm::exact;
       c.idle_tensors = true;
       c.missing_grad = MissingGrad::skip;
     }},
    {"sgd-plain", "no momentum buffer, infinity norm, no decay",
     [](RunConfig& c) {
       sgd(c);
       c.optimizer.norm = NormForm::inf;
       c.optimizer.max_norm = 0.1;
       c.optimizer.weight_decay = 0;
     }},
    {"sgd-nesterov", "Nesterov momentum, ascending",
     [](RunConfig& c) {
       sgd(c);
       c.optimizer.momentum = 0.9;
       c.optimizer.nesterov = true;
       c.optimizer.maximize = true;
     }},
    {"adamw-amsgrad", "largest second moment, no decay, elements clipped",
     [](RunConfig& c) {
       adamw(c);
       c.optimizer.amsgrad = true;
       c.optimizer.weight_decay = 0;
       c.optimizer.clip_value = 0.01;
     }},
    {"adam-amsgrad-max", "largest second moment, ascending, no bias correction, exact norm",
     [](RunConfig& c) {
       c.optimizer.rule = UpdateRule::adam;
       c.optimizer.amsgrad = true;
       c.optimizer.maximize = true;
       c.optimizer.bias_correction = false;
       c.optimizer.norm = NormForm::exact;
     }},
    {"adamw-unclipped", "no norm clipping, no bias correction, hysteresis refilled by good steps",
     [](RunConfig& c) {
       adamw(c);
       c.optimizer.max_norm.reset();
       c.optimizer.bias_correction = false;
       c.scaler.hysteresis = 2;
       c.scaler.refill = HysteresisRefill::good_step;
     }},
    {"adamw-tokens", "the sum over tokens is divided by their number, from a fresh state",
     [](RunConfig& c) {
       adamw(c);
       c.loss_reduction = LossReduction::tokens;
       fresh(c);
     }},
    {"adamw-idle", "tensors without a gradient are left alone",
     [](RunConfig& c) {
       adamw(c);
       c.idle_tensors = true;
       c.missing_grad = MissingGrad::skip;
     }},
    {"sgd-idle-zero", "a missing gradient counts as zero",
     [](RunConfig& c) {
       sgd(c);
       c.optimizer.momentum = 0.9;
       c.idle_tensors = true;
     }},
    {"adamw-stochastic", "stochastic rounding of the parameters, idle tensors left alone",
     [](RunConfig& c) {
       adamw(c);
       c.param_rounding = ParamRounding::stochastic;
       c.idle_tensors = true;
       c.missing_grad = MissingGrad::skip;
     },
     bf16_only},
    {"adamw-propagate", "an infinity goes through the last step instead of skipping it",
     [](RunConfig& c) {
       adamw(c);
       c.on_nonfinite = OnNonfinite::propagate;
       c.overflow_step = c.steps;
     }},
    {"adamw-groups",
     "two param groups, warm-up, cosine decay and a ramp of weight decay, in samples; from a fresh "
     "state",
     [](RunConfig& c) {
       adamw(c);
       fresh(c);
       groups(c);
     }},
    {"fp8-current", "8-bit parameters, scales of this step's amax, a copy by columns, exact norm",
     [](RunConfig& c) {
       ParamScaling scaling = scaling_of(ScaleRecipe::current);
       scaling.epsilon = 0.0625F;
       scaling.columnwise = true;
       scaled(c, scaling);
     },
     with_scales},
    {"fp8-delayed",
     "8-bit parameters, scales of earlier amaxes, idle tensors left alone, exact norm",
     [](RunConfig& c) {
       ParamScaling scaling = scaling_of(ScaleRecipe::delayed);
       scaling.history = 3;  // the oldest amax is dropped within the run
       scaling.margin = 1;
       scaling.empty = EmptyAmax::roll;
       scaling.value = QuantizedValue::through_bf16;
       scaled(c, scaling);
       c.idle_tensors = true;
       c.missing_grad = MissingGrad::skip;
     },
     with_scales_e5m2_first},
    {"fp8-blockwise",
     "8-bit parameters, scales of blocks of 128 by 128, masters dequantised, exact norm",
     [](RunConfig& c) {
       ParamScaling scaling = scaling_of(ScaleRecipe::blockwise);
       scaling.initial_master = InitialMaster::dequantised;
       scaling.columnwise = true;
       scaled(c, scaling);
     },
     with_scales},
    {"fp8-mxfp8",
     "8-bit parameters, scales of 32 neighbours in rows and columns, from a fresh state, exact "
     "norm",
     [](RunConfig& c) {
       fresh(c);
       ParamScaling scaling = scaling_of(ScaleRecipe::mxfp8);
       scaling.columnwise = true;
       scaled(c, scaling);
     },
     with_scales},
}};

const Recipe* find(std::string_view name) {
  const auto found = std::ranges::find(all, name, &Recipe::name);
  return found == all.end() ? nullptr : &*found;
}

/// "adamw" of "adamw+amsgrad:on+norm:exact", and the text after each +.
std::pair<std::string, std::vector<std::string>> parts_of(std::string_view recipe) {
  std::vector<std::string> words(1);
  for (const char c : recipe) {
    if (c == '+') {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  return {words.front(), {words.begin() + 1, words.end()}};
}

}  // namespace

Span<const Recipe> recipes() { return all; }

std::string configured_recipe(const RunConfig& config) {
  return std::string(name(config.optimizer.rule));
}

RunConfig under_recipe(RunConfig config, const std::string& recipe) {
  if (recipe == configured_recipe(config)) return config;
  const auto [base, words] = parts_of(recipe);
  if (!words.empty()) {
    config = under_recipe(config, base);
    set_values(config, words);
    return config;
  }
  const Recipe* found = find(recipe);
  if (found == nullptr) {
    std::vector<std::string> names;
    for (const Recipe& known : all) names.emplace_back(known.name);
    fail(ErrorCode::config, "recipe '" + recipe + "' does not exist",
         "it is the variation of the step",
         suggestion(recipe, names, "zeroproof list --recipes shows them"));
  }
  // Options of the configured rule do not carry over to another one.
  config.optimizer.momentum = config.optimizer.dampening = 0;
  config.optimizer.nesterov = config.optimizer.amsgrad = false;
  const RunConfig plain;
  config.optimizer.muon = plain.optimizer.muon;
  config.matrix_splits.clear();
  config.matrix_owners = plain.matrix_owners;
  config.matrix_tensor_parallel = plain.matrix_tensor_parallel;
  found->apply(config);
  if (!traits_of(config.optimizer.rule).matrices)
    config.muon_adamw = plain.muon_adamw;  // names of the model, which other recipes of muon keep
  return config;
}

std::string ignored_setting(RunConfig plain, RunConfig config, const std::string& recipe) {
  plain.seed = config.seed = 0;  // no recipe has one, and TOML has none above 2^63 - 1
  const std::string effect = to_toml(under_recipe(config, recipe));
  const TomlFile before(to_toml(plain), "before"), given(to_toml(config), "given"),
      under(effect, "under");
  const auto ignored = [&](const std::string& key, const TomlNode& old, const TomlNode& value,
                           const TomlNode& result) {
    if (value.shown() == old.shown() || value.shown() == result.shown()) return false;
    RunConfig without = config;
    apply_toml(without, key + " = " + old.shown(), "before");
    return to_toml(under_recipe(without, recipe)) == effect;
  };
  for (const auto& [section, table] : given.root().members()) {
    const TomlNode old = *before.root().member(section), result = *under.root().member(section);
    if (!table.is_table() && ignored(section, old, table, result)) return section;
    for (const auto& [name, value] : table.members()) {
      const std::string key = section + "." + name;
      if (ignored(key, *old.member(name), value, *result.member(name))) return key;
    }
  }
  return "";
}

std::string shown_recipe(const std::string& recipe) {
  const auto [base, words] = parts_of(recipe);
  return words.empty() ? base : base + "+" + std::to_string(words.size());
}

bool recipe_allows(const std::string& recipe, DType dtype) {
  const Recipe* found = find(parts_of(recipe).first);
  return found == nullptr || found->dtypes.empty() || std::ranges::count(found->dtypes, dtype) > 0;
}

std::vector<DType> dtypes_of(const std::string& recipe, const std::vector<DType>& configured,
                             bool own) {
  std::vector<DType> dtypes;
  for (const DType dtype : configured) {
    if (recipe_allows(recipe, dtype)) dtypes.push_back(dtype);
  }
  const Recipe* found = find(parts_of(recipe).first);
  if (dtypes.empty() && own && found != nullptr) dtypes = {found->dtypes.front()};
  return dtypes;
}

bool is_recipe(std::string_view name) { return find(parts_of(name).first) != nullptr; }

}  // namespace zeroproof::verification
