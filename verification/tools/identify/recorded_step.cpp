#include "verification/tools/identify/recorded_step.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <set>

#include "common/base/error.hpp"
#include "common/base/float_formats.hpp"
#include "common/io/safetensors/safetensors.hpp"
#include "common/step/muon_names.hpp"
#include "verification/cases/config/nearest.hpp"

namespace zeroproof::verification {
namespace {

[[noreturn]] void refuse(const std::string& file, const std::string& problem,
                         const std::string& why, const std::string& remedy) {
  fail(ErrorCode::io, file + ": " + problem, why, remedy);
}

const std::vector<std::string>& setting_names() {
  static const std::vector<std::string> names = {
      "rule",         "lr",       "beta1",           "beta2",     "eps",
      "weight_decay", "t",        "momentum",        "dampening", "nesterov",
      "amsgrad",      "maximize", "bias_correction", "family",    "coefficients",
      "steps",        "scale",    "scale_factor",    "factors",   "floor"};
  return names;
}

class Settings {
 public:
  Settings(const SafeMetadata& metadata, const std::string& file)
      : metadata_(metadata), file_(file) {
    for (const auto& [key, value] : metadata) {
      if (key == "program" || key == "format") continue;  // the library that wrote it
      const std::vector<std::string>& known = setting_names();
      if (std::ranges::find(known, key) != known.end()) continue;
      if (key == "micro_batches") {
        refuse(file, "it has the gradients of a training run and no step",
               "a step has before.* and after.*", "use it with verify --gradients");
      }
      refuse(file, shown_name(key) + " is no setting of a step", "it would have no effect",
             suggestion(key, known));
    }
  }

  std::string text(const char* key) const {
    const auto found = metadata_.find(key);
    if (found != metadata_.end()) return found->second;
    refuse(file_, std::string("the metadata has no '") + key + "'", "a step is made with it",
           "write it as a text, \"" + std::string(key) + "\": \"...\"");
  }

  double number(const char* key, double low, double high) const {
    const std::string value = text(key);
    double x = 0;
    const auto [rest, error] = std::from_chars(value.data(), value.data() + value.size(), x);
    if (error != std::errc{} || rest != value.data() + value.size() || !(x >= low && x <= high)) {
      refuse(file_, std::string(key) + " is " + shown_name(value), "that is not a number it can be",
             "write a finite decimal number that fits it");
    }
    return x;
  }

  double number_or(const char* key, double otherwise, double low, double high) const {
    return metadata_.contains(key) ? number(key, low, high) : otherwise;
  }

  bool flag(const char* key, bool otherwise) const {
    if (!metadata_.contains(key)) return otherwise;
    const std::string value = text(key);
    if (value == "1" || value == "true" || value == "True") return true;
    if (value == "0" || value == "false" || value == "False") return false;
    refuse(file_, std::string(key) + " is " + shown_name(value), "it is on or off", "write 1 or 0");
  }

  bool given(const char* key) const { return metadata_.contains(key); }

  [[noreturn]] void refuse_value(const char* key, const char* why, const char* remedy) const {
    refuse(file_, std::string(key) + " is " + shown_name(text(key)), why, remedy);
  }

  /// One of the names of an enumeration.
  template <class Choice>
  std::optional<Choice> choice(const char* key) const {
    if (!given(key)) return std::nullopt;
    const std::string value = text(key);
    const Span<const std::string_view> names = names_of(Choice{});
    const auto found = std::ranges::find(names, value);
    if (found == names.end()) {
      refuse(file_, std::string(key) + " is " + shown_name(value), "it is a choice of R28",
             suggestion(value, {names.begin(), names.end()}));
    }
    return static_cast<Choice>(found - names.begin());
  }

 private:
  const SafeMetadata& metadata_;
  const std::string& file_;
};

constexpr double large = 1e38;

GivenMuon given_muon(const Settings& settings) {
  GivenMuon given;
  given.family = settings.choice<MomentumFamily>("family");
  if (settings.given("nesterov")) given.nesterov = settings.flag("nesterov", false);
  given.coefficients = settings.choice<NewtonSchulzSet>("coefficients");
  if (settings.given("steps")) {
    const double steps = settings.number("steps", 1, 64);
    if (steps != std::floor(steps))
      settings.refuse_value("steps", "Newton-Schulz has whole steps",
                            "write a whole number from 1 to 64");
    given.steps = static_cast<int>(steps);
  }
  given.scale = settings.choice<MuonScale>("scale");
  given.scale_factor = settings.number_or("scale_factor", 1, 0x1p-100, large);
  given.factors = settings.choice<MatrixFactors>("factors");
  given.floor = settings.choice<NormFloor>("floor");
  if (settings.given("eps")) given.eps = settings.number("eps", 0, large);
  return given;
}

class TensorReader {
 public:
  TensorReader(const SafetensorsReader& reader, const std::string& file)
      : reader_(reader), file_(file) {}

  bool has(const std::string& name) const { return reader_.find(name) != nullptr; }

  /// Sets the extents of a matrix; all tensors of a parameter have the same.
  void read_extents(const std::string& name, StepTensor& tensor) {
    const std::vector<std::int64_t>& shape = reader_.find(name)->shape;
    if (shape.size() != 2) {
      refuse(file_, shown_name(name) + " has " + std::to_string(shape.size()) + " dimensions",
             "muon updates matrices", "write [rows, columns]; leave other parameters out");
    }
    const auto rows = static_cast<std::size_t>(shape[0]),
               columns = static_cast<std::size_t>(shape[1]);
    if (tensor.rows + tensor.columns != 0 && (tensor.rows != rows || tensor.columns != columns)) {
      refuse(
          file_, shown_name(name) + " is " + std::to_string(rows) + " x " + std::to_string(columns),
          "its gradient is " + std::to_string(tensor.rows) + " x " + std::to_string(tensor.columns),
          "write them in one shape");
    }
    tensor.rows = rows;
    tensor.columns = columns;
  }

  std::vector<float> read(const std::string& name) {
    const SafeTensor* tensor = reader_.find(name);
    if (tensor == nullptr) {
      refuse(file_, "there is no tensor " + shown_name(name), "a step of this rule has it",
             "write inputs as before.*, results as after.*");
    }
    used_.insert(name);
    std::vector<float> values(tensor->numel());
    if (tensor->dtype == SafeDType::bf16) {
      widen<bf16>(*tensor, values);
    } else if (tensor->dtype == SafeDType::f16) {
      widen<fp16>(*tensor, values);
    } else if (tensor->dtype != SafeDType::f32) {
      refuse(file_, shown_name(name) + " is " + std::string(zeroproof::name(tensor->dtype)),
             "states are fp32, bf16 or fp16", "write F32, BF16 or F16");
    } else if (!values.empty()) {
      reader_.read(*tensor, 0, std::as_writable_bytes(Span<float>(values)));
    }
    return values;
  }

  void require_all_used() const {
    for (const SafeTensor& tensor : reader_.header().tensors) {
      if (used_.contains(tensor.name)) continue;
      refuse(file_, shown_name(tensor.name) + " belongs to no step of this rule",
             "it would have no effect",
             "leave it out, or give before.grad and the rest of the state");
    }
  }

 private:
  template <class Format>
  void widen(const SafeTensor& tensor, std::vector<float>& values) const {
    std::vector<Format> narrow(values.size());
    if (!narrow.empty()) reader_.read(tensor, 0, std::as_writable_bytes(Span<Format>(narrow)));
    std::ranges::transform(narrow, values.begin(), [](Format x) { return to_float(x); });
  }

  const SafetensorsReader& reader_;
  const std::string& file_;
  std::set<std::string> used_;
};

void require_size(const std::string& file, const std::string& name, std::size_t got,
                  std::size_t want) {
  if (got == want) return;
  refuse(file,
         shown_name(name) + " has " + std::to_string(got) + " elements, its gradient " +
             std::to_string(want),
         "an update is elementwise", "write them in one shape");
}

constexpr std::string_view gradient = "before.grad";

/// "" or ".NAME" for every parameter of the file.
std::vector<std::string> parameters_of(const SafetensorsReader& reader, const std::string& file) {
  std::vector<std::string> suffixes;
  for (const SafeTensor& tensor : reader.header().tensors) {
    const std::string& name = tensor.name;
    if (name == gradient || name.starts_with(std::string(gradient) + "."))
      suffixes.push_back(name.substr(gradient.size()));
  }
  if (suffixes.empty()) {
    refuse(file, "there is no tensor before.grad", "a step begins with a gradient",
           "write before.grad, or before.grad.NAME for every parameter");
  }
  std::ranges::sort(suffixes);
  return suffixes;
}

}  // namespace

DialectHyper hyper_of_settings(const SafeMetadata& metadata, const std::string& file) {
  const Settings settings(metadata, file);
  DialectHyper h;
  const std::string rule = settings.text("rule");
  const std::vector<std::string> rules = {"adamw", "adam", "sgd", "lamb", "muon"};
  if (std::ranges::find(rules, rule) == rules.end()) {
    refuse(file, "rule is " + shown_name(rule),
           "there are dialects of adamw, adam, sgd, lamb and muon", suggestion(rule, rules));
  }
  h.rule = std::ranges::find(update_rules, rule, &RuleTraits::name)->rule;
  h.lr = settings.number("lr", 0, large);
  h.weight_decay = settings.number("weight_decay", 0, large);
  h.maximize = settings.flag("maximize", false);
  const bool sgd = h.rule == UpdateRule::sgd;
  const bool muon = h.rule == UpdateRule::muon;
  std::vector<std::string> foreign =
      sgd || muon ? std::vector<std::string>{"beta1", "beta2", "amsgrad", "bias_correction"}
                  : std::vector<std::string>{"momentum", "dampening", "nesterov"};
  if (h.rule == UpdateRule::lamb) foreign.emplace_back("amsgrad");
  if (sgd) foreign.emplace_back("eps");
  if (muon)
    foreign.emplace_back("dampening");
  else
    foreign.insert(foreign.end(), {"family", "coefficients", "steps", "scale", "scale_factor",
                                   "factors", "floor"});
  for (const std::string& key : foreign) {
    if (metadata.contains(key)) {
      refuse(file, key + " is no setting of " + rule, "it would silently do nothing",
             "leave it out");
    }
  }
  if (sgd) {
    h.momentum = settings.number("momentum", 0, 1);
    h.dampening = settings.number_or("dampening", 0, 0, 1);
    h.nesterov = settings.flag("nesterov", false);
    return h;
  }
  constexpr double below_one = 1 - 0x1p-53;
  if (muon) {
    h.momentum = settings.number("momentum", 0, below_one);
    h.muon = given_muon(settings);
  } else {
    h.beta1 = settings.number("beta1", 0, below_one);
    h.beta2 = settings.number("beta2", 0, below_one);
    h.eps = settings.number("eps", 0, large);
  }
  const double t = settings.number("t", 0, 0x1p53);
  if (t < 1 || t != std::floor(t)) {
    refuse(file, "t is " + shown_name(settings.text("t")),
           "it counts the applied steps with this one, from 1",
           t == 0 ? "leave the file out if the step was skipped, or write t after the step"
                  : "write 1 for the first");
  }
  h.t = static_cast<std::int64_t>(t);
  h.amsgrad = settings.flag("amsgrad", false);
  h.bias_correction = settings.flag("bias_correction", true);
  return h;
}

std::vector<std::string> step_buffers(const DialectHyper& h) {
  if (h.rule == UpdateRule::sgd) {
    return h.momentum == 0 ? std::vector<std::string>{"master"}
                           : std::vector<std::string>{"master", "momentum_buffer"};
  }
  if (h.rule == UpdateRule::muon) return {"master", "momentum_buffer"};
  std::vector<std::string> buffers = {"master", "exp_avg", "exp_avg_sq"};
  if (h.amsgrad) buffers.emplace_back("max_exp_avg_sq");
  return buffers;
}

std::vector<float>& step_buffer(StepState& state, const std::string& buffer) {
  if (buffer == "master") return state.master;
  if (buffer == "exp_avg") return state.exp_avg;
  if (buffer == "exp_avg_sq") return state.exp_avg_sq;
  return buffer == "max_exp_avg_sq" ? state.max_exp_avg_sq : state.momentum_buffer;
}

std::int64_t RecordedStep::numel() const {
  std::int64_t n = 0;
  for (const StepTensor& tensor : tensors) n += static_cast<std::int64_t>(tensor.numel());
  return n;
}

RecordedStep read_step(const std::string& file) {
  const SafetensorsReader reader = SafetensorsReader::open(file);
  RecordedStep step;
  step.file = file;
  step.hyper = hyper_of_settings(reader.metadata(), file);
  const auto program = reader.metadata().find("program");
  if (program != reader.metadata().end()) step.program = program->second;
  TensorReader tensors(reader, file);
  const bool momentum = step.hyper.rule == UpdateRule::sgd && step.hyper.momentum != 0;
  const std::vector<std::string> parameters = parameters_of(reader, file);
  step.is_first = momentum && !tensors.has("before.momentum_buffer" + parameters.front());
  for (const std::string& suffix : parameters) {
    StepTensor tensor;
    tensor.name = suffix.empty() ? suffix : suffix.substr(1);
    tensor.grad = tensors.read(std::string(gradient) + suffix);
    const bool muon = step.hyper.rule == UpdateRule::muon;
    if (muon) tensors.read_extents(std::string(gradient) + suffix, tensor);
    for (const std::string& buffer : step_buffers(step.hyper)) {
      for (const bool after : {false, true}) {
        const std::string name = (after ? "after." : "before.") + buffer + suffix;
        if (step.is_first && !after && buffer == "momentum_buffer") continue;
        if (muon && !after && buffer == "momentum_buffer" && !tensors.has(name)) {
          tensor.before.momentum_buffer.resize(tensor.grad.size());  // zeros
          continue;
        }
        std::vector<float>& values = step_buffer(after ? tensor.after : tensor.before, buffer);
        values = tensors.read(name);
        require_size(file, name, values.size(), tensor.grad.size());
        if (muon) tensors.read_extents(name, tensor);
      }
    }
    step.tensors.push_back(std::move(tensor));
  }
  tensors.require_all_used();
  if (step.numel() == 0) {
    refuse(file, "no tensor has elements", "there is nothing to identify",
           "record a step of a model with parameters");
  }
  return step;
}

}  // namespace zeroproof::verification
