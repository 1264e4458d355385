// TOML into RunConfig: one row per key, so that the list of valid keys and the code cannot drift apart.

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <sstream>

#define TOML_EXCEPTIONS 1
#include <toml++/toml.h>

#include "common/base/error.hpp"
#include "common/step/config.hpp"

namespace zeroproof {
namespace {

/// Text of the file inside a message: one line, whatever control characters it holds.
std::string printable(const std::string& text) {
  std::string result;
  for (const char c : text) result += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? '?' : c;
  return result;
}

/// A value with the file it came from, for messages.
struct Value {
  const toml::node& node;
  std::string key;
  std::string file;

  std::string place() const { return file + ":" + std::to_string(node.source().begin.line); }

  [[noreturn]] void reject(const std::string& expected) const {
    std::ostringstream shown;
    node.visit([&](const auto& value) { shown << value; });
    fail(ErrorCode::config, place() + ": " + key + " = " + printable(shown.str()), "that is not " + expected,
         "write " + expected + "; common/step/defaults.toml shows every key");
  }
  template <class T>
  T as(const std::string& expected) const {
    const std::optional<T> value = node.value_exact<T>();
    if (!value) reject(expected);
    return *value;
  }
  std::int64_t integer(std::int64_t low, std::int64_t high) const {
    const auto value = as<std::int64_t>("an integer");
    if (value < low || value > high) {
      reject("an integer from " + std::to_string(low) + " to " + std::to_string(high));
    }
    return value;
  }
  int small(int low = -2147483647, int high = 2147483647) const {
    return static_cast<int>(integer(low, high));
  }
  double number() const {
    if (node.is_integer()) {
      const auto value = as<std::int64_t>("a number");
      constexpr std::int64_t safe = std::int64_t{1} << 62;  // beyond, the way back could overflow
      const bool exact =
          value <= safe && value >= -safe && static_cast<std::int64_t>(static_cast<double>(value)) == value;
      if (!exact) reject("a number that fp64 holds exactly");
      return static_cast<double>(value);
    }
    return as<double>("a number");
  }
  std::string string() const { return as<std::string>("a string"); }
  bool boolean() const { return as<bool>("true or false"); }
  int exponent_of_power_of_two() const {
    int exponent = 0;
    const double value = number();
    if (!(value > 0) || std::isinf(value) || std::frexp(value, &exponent) != 0.5) reject("a power of two");
    return exponent - 1;
  }
  template <class T, class Read>
  std::vector<T> list(const Read& read) const {
    const toml::array* array = node.as_array();
    if (array == nullptr || array->empty()) reject("a list with at least one value");
    std::vector<T> result;
    for (const toml::node& item : *array) result.push_back(read(Value{item, key, file}));
    return result;
  }
};

using Setter = std::function<void(RunConfig&, const Value&)>;

/// One of the names of an enumeration.
template <class Choice>
Choice choice(const Value& v) {
  const std::string text = v.string();
  const auto names = names_of(Choice{});
  std::string expected;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == text) return static_cast<Choice>(i);
    expected += i == 0 ? "" : i + 1 == names.size() ? " or " : ", ";
    expected.append("\"").append(names[i]).append("\"");
  }
  v.reject(expected);
}

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
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    if (name(dtype) == text) return dtype;
  }
  v.reject("\"bf16\", \"fp16\" or \"fp32\"");
}

std::vector<std::pair<std::string, Setter>> run_keys() {
  const auto small = [](const Value& v) { return v.small(); };
  return {
      {"run.seed",
       [](RunConfig& c, const Value& v) { c.seed = static_cast<std::uint64_t>(v.integer(0, INT64_MAX)); }},
      {"run.steps", [](RunConfig& c, const Value& v) { c.steps = v.integer(INT64_MIN, INT64_MAX); }},
      {"run.micro_batches",
       [](RunConfig& c, const Value& v) { c.micro_batches = v.integer(INT64_MIN, INT64_MAX); }},
      {"run.stages", [small](RunConfig& c, const Value& v) { c.stages = v.list<int>(small); }},
      {"run.worlds",
       [](RunConfig& c, const Value& v) {
         c.worlds = v.list<std::string>([](const Value& item) { return item.string(); });
       }},
      {"run.dtypes", [](RunConfig& c, const Value& v) { c.dtypes = v.list<DType>(param_dtype); }},
      {"run.bucket_numels",
       [](RunConfig& c, const Value& v) {
         c.bucket_numels =
             v.list<std::int64_t>([](const Value& i) { return i.integer(INT64_MIN, INT64_MAX); });
       }},
      {"run.omp_threads", [small](RunConfig& c, const Value& v) { c.omp_threads = v.list<int>(small); }},
      {"run.initial_state", [](RunConfig& c, const Value& v) { c.initial_state = initial_state(v); }},
      {"run.overflow_step",
       [](RunConfig& c, const Value& v) { c.overflow_step = v.integer(INT64_MIN, INT64_MAX); }},
      {"run.idle_tensors", [](RunConfig& c, const Value& v) { c.idle_tensors = v.boolean(); }},
      {"run.loss_reduction",
       [](RunConfig& c, const Value& v) { c.loss_reduction = choice<LossReduction>(v); }},
      {"run.on_nonfinite", [](RunConfig& c, const Value& v) { c.on_nonfinite = choice<OnNonfinite>(v); }},
      {"run.missing_grad", [](RunConfig& c, const Value& v) { c.missing_grad = choice<MissingGrad>(v); }},
      {"run.param_rounding",
       [](RunConfig& c, const Value& v) { c.param_rounding = choice<ParamRounding>(v); }},
      {"run.text", [](RunConfig& c, const Value& v) { c.text = v.string(); }},
      {"run.comm_timeout_s", [](RunConfig& c, const Value& v) { c.comm_timeout_s = v.number(); }},
  };
}

std::vector<std::pair<std::string, Setter>> training_keys() {
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
      {"optimizer.weight_decay", [](RunConfig& c, const Value& v) { c.optimizer.weight_decay = v.number(); }},
      {"optimizer.bias_correction",
       [](RunConfig& c, const Value& v) { c.optimizer.bias_correction = v.boolean(); }},
      {"optimizer.rule", [](RunConfig& c, const Value& v) { c.optimizer.rule = choice<UpdateRule>(v); }},
      {"optimizer.amsgrad", [](RunConfig& c, const Value& v) { c.optimizer.amsgrad = v.boolean(); }},
      {"optimizer.maximize", [](RunConfig& c, const Value& v) { c.optimizer.maximize = v.boolean(); }},
      {"optimizer.momentum", [](RunConfig& c, const Value& v) { c.optimizer.momentum = v.number(); }},
      {"optimizer.dampening", [](RunConfig& c, const Value& v) { c.optimizer.dampening = v.number(); }},
      {"optimizer.nesterov", [](RunConfig& c, const Value& v) { c.optimizer.nesterov = v.boolean(); }},
      {"optimizer.norm", [](RunConfig& c, const Value& v) { c.optimizer.norm = choice<NormForm>(v); }},
      {"optimizer.clip_value",
       [](RunConfig& c, const Value& v) {
         // TOML has no word for "absent", so 0 stands for it here as it does for max_norm.
         const double value = v.number();
         c.optimizer.clip_value = value == 0 ? std::nullopt : std::optional(value);
       }},
      {"optimizer.max_norm", [](RunConfig& c, const Value& v) { c.optimizer.max_norm = v.number(); }},
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
      {"loss_scaler.hysteresis", [](RunConfig& c, const Value& v) { c.scaler.hysteresis = v.small(); }},
      {"loss_scaler.hysteresis_refill", [](RunConfig& c, const Value& v) { c.scaler.refill = refill(v); }},
  };
}

toml::table parse(std::string_view text, const std::string& file_name) {
  try {
    return toml::parse(text, file_name);
  } catch (const toml::parse_error& error) {
    fail(ErrorCode::config,
         file_name + ":" + std::to_string(error.source().begin.line) +
             ": not valid TOML: " + std::string(error.description()),
         "the settings cannot be read", "mend that line; common/step/defaults.toml is an example");
  }
}

}  // namespace

void apply_toml(RunConfig& config, std::string_view text, const std::string& file_name) {
  std::vector<std::pair<std::string, Setter>> keys = run_keys();
  for (auto& key : training_keys()) keys.push_back(std::move(key));
  std::vector<std::string> names;
  for (const auto& [name, setter] : keys) names.push_back(name);

  const auto unknown = [&](const std::string& key, const toml::node& node) {
    const std::string place = file_name + ":" + std::to_string(node.source().begin.line);
    fail(ErrorCode::config, place + ": unknown key " + printable(key),
         "a misspelt setting would silently do nothing", "did you mean " + nearest(key, names) + "?");
  };
  const auto apply = [&](const std::string& key, const toml::node& node) {
    for (const auto& [name, setter] : keys) {
      if (name == key) return setter(config, Value{node, key, file_name});
    }
    unknown(key, node);
  };
  for (const auto& [section, node] : parse(text, file_name)) {
    const std::string prefix(section.str());
    const bool known = std::any_of(names.begin(), names.end(),
                                   [&](const std::string& name) { return name.rfind(prefix + ".", 0) == 0; });
    const toml::table* table = node.as_table();
    // Also "run.steps" = 7, a quoted key at the top, and a misspelt section that is still empty.
    if (table == nullptr || (!known && table->empty())) {
      unknown(prefix, node);
      continue;
    }
    for (const auto& [name, value] : *table) apply(prefix + "." + std::string(name.str()), value);
  }
}

}  // namespace zeroproof
