#include "verification/interfaces/python/src/extension/settings.hpp"

#include <functional>
#include <map>
#include <vector>

#include "common/base/dtype.hpp"
#include "common/base/error.hpp"
#include "common/step/muon_names.hpp"
#include "verification/cases/config/nearest.hpp"
#include "verification/interfaces/python/src/extension/convert.hpp"

namespace zeroproof::python {
namespace {

template <class T>
T read(const py::Object& value, const std::string& name, const char* kind) {
  // True is no number
  if (const std::optional<T> result = py::from_python<T>(value);
      result && (std::is_same_v<T, bool> || PyBool_Check(value.get()) == 0))
    return *result;
  const std::string text = name + " is " +
                           py::text_of(py::Object::take(PyObject_Repr(value.get()))) +
                           " (it must be " + kind + "); pass one";
  py::raise(PyExc_TypeError, text);
}

double real(const py::Object& value, const std::string& name) {
  return read<double>(value, name, "a number");
}
bool flag(const py::Object& value, const std::string& name) {
  return read<bool>(value, name, "True or False");
}
int whole(const py::Object& value, const std::string& name) {
  return read<int>(value, name, "a whole number of 32 bits");
}

template <class Value>
std::vector<std::string> names_of(const std::map<std::string, Value>& table) {
  std::vector<std::string> names;
  for (const auto& [name, ignored] : table) names.push_back(name);
  return names;
}

template <class Value>
const Value& look_up(const std::map<std::string, Value>& table, const std::string& word,
                     const std::string& what, const std::string& why) {
  const auto found = table.find(word);
  ZP_CHECK(found != table.end(), ErrorCode::config, "'" + word + "' is no " + what, why,
           suggestion(word, names_of(table)));
  return found->second;
}

/// The value of an enumeration with that name.
template <class Choice>
Choice named(const py::Object& value, const std::string& name) {
  std::map<std::string, Choice> choices;
  const Span<const std::string_view> all = zeroproof::names_of(Choice{});
  for (std::size_t i = 0; i < all.size(); ++i)
    choices[std::string(all[i])] = static_cast<Choice>(i);
  return look_up(choices, read<std::string>(value, name, "a word"), "value of " + name,
                 "it selects a computation of muon, R28");
}

/// Sets the fields that a dict names.
template <class Settings>
using Setters =
    std::map<std::string, std::function<void(Settings&, const py::Object&, const std::string&)>>;

template <class Settings>
void apply(const Setters<Settings>& setters, const py::Dict& given, Settings& settings) {
  for (const auto& [key, value] : given.items()) {
    const auto name = py::cast<std::string>(key);
    look_up(setters, name, "setting", "it would have no effect")(settings, value, name);
  }
}

const Setters<OptimizerHyper>& hyper_setters() {
  using H = OptimizerHyper;
  static const Setters<H> setters = {
      {"lr", [](H& h, const py::Object& v, const std::string& n) { h.lr = real(v, n); }},
      {"beta1", [](H& h, const py::Object& v,
                   const std::string& n) { h.beta1 = static_cast<float>(real(v, n)); }},
      {"beta2", [](H& h, const py::Object& v,
                   const std::string& n) { h.beta2 = static_cast<float>(real(v, n)); }},
      {"eps", [](H& h, const py::Object& v, const std::string& n) { h.eps = real(v, n); }},
      {"weight_decay",
       [](H& h, const py::Object& v, const std::string& n) { h.weight_decay = real(v, n); }},
      {"bias_correction",
       [](H& h, const py::Object& v, const std::string& n) { h.bias_correction = flag(v, n); }},
      {"amsgrad", [](H& h, const py::Object& v, const std::string& n) { h.amsgrad = flag(v, n); }},
      {"maximize",
       [](H& h, const py::Object& v, const std::string& n) { h.maximize = flag(v, n); }},
      {"momentum",
       [](H& h, const py::Object& v, const std::string& n) { h.momentum = real(v, n); }},
      {"dampening",
       [](H& h, const py::Object& v, const std::string& n) { h.dampening = real(v, n); }},
      {"nesterov",
       [](H& h, const py::Object& v, const std::string& n) { h.nesterov = flag(v, n); }},
      {"max_norm",
       [](H& h, const py::Object& v, const std::string& n) {
         h.max_norm.reset();
         if (!v.is_none()) h.max_norm = real(v, n);
       }},
      {"clip_value",
       [](H& h, const py::Object& v, const std::string& n) {
         h.clip_value.reset();
         if (!v.is_none()) h.clip_value = real(v, n);
       }},
      {"family", [](H& h, const py::Object& v,
                    const std::string& n) { h.muon.family = named<MomentumFamily>(v, n); }},
      {"coefficients",
       [](H& h, const py::Object& v, const std::string& n) {
         h.muon.newton_schulz.coefficients = named<NewtonSchulzSet>(v, n);
       }},
      {"ns_steps", [](H& h, const py::Object& v,
                      const std::string& n) { h.muon.newton_schulz.steps = whole(v, n); }},
      {"form",
       [](H& h, const py::Object& v, const std::string& n) {
         h.muon.newton_schulz.form = named<PolynomialForm>(v, n);
       }},
      {"factors",
       [](H& h, const py::Object& v,
          const std::string& n) { h.muon.newton_schulz.factors = named<MatrixFactors>(v, n); }},
      {"floor", [](H& h, const py::Object& v,
                   const std::string& n) { h.muon.newton_schulz.floor = named<NormFloor>(v, n); }},
      {"ns_eps", [](H& h, const py::Object& v,
                    const std::string& n) { h.muon.newton_schulz.eps = real(v, n); }},
      {"rounds_first",
       [](H& h, const py::Object& v,
          const std::string& n) { h.muon.newton_schulz.rounds_first = flag(v, n); }},
      {"scale", [](H& h, const py::Object& v,
                   const std::string& n) { h.muon.scale = named<MuonScale>(v, n); }},
      {"scale_factor",
       [](H& h, const py::Object& v, const std::string& n) { h.muon.scale_factor = real(v, n); }}};
  return setters;
}

const Setters<LossScalerConfig>& scaler_setters() {
  using S = LossScalerConfig;
  static const std::map<std::string, LossScalerKind> kinds = {
      {"none", LossScalerKind::none},
      {"constant", LossScalerKind::constant},
      {"dynamic", LossScalerKind::dynamic}};
  static const std::map<std::string, HysteresisRefill> refills = {
      {"growth", HysteresisRefill::growth}, {"good_step", HysteresisRefill::good_step}};
  static const Setters<S> setters = {
      {"kind",
       [](S& s, const py::Object& v, const std::string& n) {
         s.kind = look_up(kinds, read<std::string>(v, n, "a word"), "kind of loss scaler",
                          "it selects the effect of an overflow");
       }},
      {"log2_initial",
       [](S& s, const py::Object& v, const std::string& n) { s.log2_initial = whole(v, n); }},
      {"log2_growth",
       [](S& s, const py::Object& v, const std::string& n) { s.log2_growth = whole(v, n); }},
      {"log2_backoff",
       [](S& s, const py::Object& v, const std::string& n) { s.log2_backoff = whole(v, n); }},
      {"log2_min",
       [](S& s, const py::Object& v, const std::string& n) { s.log2_min = whole(v, n); }},
      {"log2_max",
       [](S& s, const py::Object& v, const std::string& n) { s.log2_max = whole(v, n); }},
      {"growth_interval",
       [](S& s, const py::Object& v, const std::string& n) { s.growth_interval = whole(v, n); }},
      {"hysteresis",
       [](S& s, const py::Object& v, const std::string& n) { s.hysteresis = whole(v, n); }},
      {"refill", [](S& s, const py::Object& v, const std::string& n) {
         s.refill = look_up(refills, read<std::string>(v, n, "a word"), "refill",
                            "it decides when the "
                            "hysteresis is refilled");
       }}};
  return setters;
}

std::vector<std::string> globs(const py::Object& value, const std::string& name) {
  std::vector<std::string> all;
  for (const py::Object& one : py::cast<py::List>(value).items())
    all.push_back(read<std::string>(one, name, "a list of words"));
  return all;
}

const Setters<GroupRule>& param_group_setters() {
  using G = GroupRule;
  static const Setters<G> setters = {
      {"name", [](G& g, const py::Object& v,
                  const std::string& n) { g.name = read<std::string>(v, n, "a word"); }},
      {"match", [](G& g, const py::Object& v, const std::string& n) { g.match = globs(v, n); }},
      {"vectors", [](G& g, const py::Object& v, const std::string& n) { g.vectors = flag(v, n); }},
      {"lr_mult", [](G& g, const py::Object& v, const std::string& n) { g.lr_mult = real(v, n); }},
      {"weight_decay_mult",
       [](G& g, const py::Object& v, const std::string& n) { g.weight_decay_mult = real(v, n); }},
      {"lr", [](G& g, const py::Object& v, const std::string& n) { g.lr = real(v, n); }}};
  return setters;
}

const Setters<ClipGroupRule>& clip_group_setters() {
  using G = ClipGroupRule;
  static const Setters<G> setters = {
      {"name", [](G& g, const py::Object& v,
                  const std::string& n) { g.name = read<std::string>(v, n, "a word"); }},
      {"match", [](G& g, const py::Object& v, const std::string& n) { g.match = globs(v, n); }},
      {"vectors", [](G& g, const py::Object& v, const std::string& n) { g.vectors = flag(v, n); }},
      {"max_norm",
       [](G& g, const py::Object& v, const std::string& n) { g.max_norm = real(v, n); }}};
  return setters;
}

std::vector<std::int64_t> widths(const py::Object& value, const std::string& name) {
  std::vector<std::int64_t> all;
  for (const py::Object& one : py::cast<py::List>(value).items())
    all.push_back(read<std::int64_t>(one, name, "a list of whole numbers"));
  return all;
}

const Setters<MatrixSplitRule>& matrix_split_setters() {
  using S = MatrixSplitRule;
  static const Setters<S> setters = {
      {"name", [](S& s, const py::Object& v,
                  const std::string& n) { s.name = read<std::string>(v, n, "a word"); }},
      {"match", [](S& s, const py::Object& v, const std::string& n) { s.match = globs(v, n); }},
      {"rows", [](S& s, const py::Object& v, const std::string& n) { s.rows = widths(v, n); }},
      {"columns",
       [](S& s, const py::Object& v, const std::string& n) { s.columns = widths(v, n); }}};
  return setters;
}

template <class Rule>
std::vector<Rule> groups_of(const Setters<Rule>& setters, const py::List& given) {
  std::vector<Rule> rules;
  for (const py::Object& one : given.items())
    apply(setters, py::cast<py::Dict>(one), rules.emplace_back());
  return rules;
}

}  // namespace

std::vector<GroupRule> param_groups_of(const py::List& groups) {
  return groups_of(param_group_setters(), groups);
}

std::vector<ClipGroupRule> clip_groups_of(const py::List& groups) {
  return groups_of(clip_group_setters(), groups);
}

std::vector<MatrixSplitRule> matrix_splits_of(const py::List& splits) {
  return groups_of(matrix_split_setters(), splits);
}

OptimizerHyper hyper_of(const std::string& rule, const py::Dict& settings) {
  std::map<std::string, UpdateRule> rules;
  for (const RuleTraits& traits : update_rules) rules[std::string(traits.name)] = traits.rule;
  OptimizerHyper hyper;
  hyper.rule = look_up(rules, rule, "update rule", "there is no reference for it");
  hyper.max_norm.reset();
  apply(hyper_setters(), settings, hyper);
  ZP_CHECK(traits_of(hyper.rule).matrices || hyper.muon == MuonSettings{}, ErrorCode::config,
           "settings of muon are given with the rule " + rule, "they would have no effect",
           "use the rule muon, or leave them out");
  return hyper;
}

LossScalerConfig scaler_of(const py::Dict& settings) {
  LossScalerConfig config;
  apply(scaler_setters(), settings, config);
  return config;
}

DType dtype_of(const std::string& name) {
  static const std::map<std::string, DType> names = {
      {"fp32", DType::fp32},     {"float32", DType::fp32},    {"bf16", DType::bf16},
      {"bfloat16", DType::bf16}, {"fp16", DType::fp16},       {"float16", DType::fp16},
      {"half", DType::fp16},     {"e4m3", DType::e4m3},       {"float8_e4m3fn", DType::e4m3},
      {"e5m2", DType::e5m2},     {"float8_e5m2", DType::e5m2}};
  return look_up(names, name, "dtype", "its bits have no meaning here");
}

py::Dict dict_of(const std::vector<verification::OpSetting>& settings) {
  py::Dict dict;
  for (const verification::OpSetting& setting : settings)
    std::visit([&](auto value) { dict.set(setting.name, value); }, setting.value);
  return dict;
}

py::Dict dict_of(const StepScalars& s) {
  py::Dict dict;
  dict.set("inv_scale", s.inv_scale);
  dict.set("beta1", s.beta1);
  dict.set("one_minus_beta1", s.one_minus_beta1);
  dict.set("beta2", s.beta2);
  dict.set("one_minus_beta2", s.one_minus_beta2);
  dict.set("sqrt_bias_correction2", s.sqrt_bias_correction2);
  dict.set("step_size", s.step_size);
  dict.set("eps", s.eps);
  dict.set("lr_weight_decay", s.lr_weight_decay);
  dict.set("weight_decay", s.weight_decay);
  dict.set("lr", s.lr);
  dict.set("momentum", s.momentum);
  dict.set("one_minus_dampening", s.one_minus_dampening);
  dict.set("has_decay", s.has_decay);
  dict.set("is_first", s.is_first);
  return dict;
}

}  // namespace zeroproof::python
