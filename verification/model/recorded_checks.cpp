// Checks that a safetensors file is a recording of gradients; every error names the tensor or
// metadata key.

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>

#include "common/base/error.hpp"
#include "verification/model/recorded.hpp"

namespace zeroproof::workload {
namespace {

// No run configuration could use larger ones (verification/cases/config/config.cpp).
constexpr std::int64_t most_steps = 1'000'000;
constexpr std::int64_t most_micro_batches = 1 << 20;

constexpr const char* remedy = "see \"Your own gradients\" in README.md for names and shapes";

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t dim : shape) {
    if (!text.empty()) text += ", ";
    text += std::to_string(dim);
  }
  return "[" + text + "]";
}

/// A number in the spelling of std::to_string only, so that a gradient has one name.
std::optional<std::int64_t> plain_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || rest != text.data() + text.size() || text != std::to_string(value)) {
    return std::nullopt;
  }
  return value;
}

struct GradientName {
  std::int64_t step = 0;
  std::int64_t micro_batch = 0;
  std::string parameter;
};

/// The parts of "grad.<step>.<micro_batch>.<parameter>", whose parameter may contain dots; nullopt
/// for other names.
std::optional<GradientName> parse_gradient_name(std::string_view name) {
  if (!name.starts_with("grad.")) return std::nullopt;
  const std::string_view rest = name.substr(5);
  const std::size_t first = rest.find('.');
  const std::size_t second = first == std::string_view::npos ? first : rest.find('.', first + 1);
  if (second == std::string_view::npos || second + 1 == rest.size()) return std::nullopt;
  const auto step = plain_number(rest.substr(0, first));
  const auto micro_batch = plain_number(rest.substr(first + 1, second - first - 1));
  if (!step || !micro_batch || *step < 1 || *step > most_steps || *micro_batch < 0 ||
      *micro_batch >= most_micro_batches) {
    return std::nullopt;
  }
  return GradientName{*step, *micro_batch, std::string(rest.substr(second + 1))};
}

}  // namespace

bool is_gradient_name(const std::string& name) { return parse_gradient_name(name).has_value(); }

RecordedGradients::RecordedGradients(const std::string& path)
    : reader_(SafetensorsReader::open(path, recording_limits())) {
  find_gradients();
  check_complete();
  check_initial();
  check_metadata();
  put_in_order();
}

void RecordedGradients::find_gradients() {
  std::map<std::string, const SafeTensor*> first;  // a gradient of each parameter
  for (const SafeTensor& tensor : reader_.header().tensors) {
    if (tensor.name == "loss" || tensor.name.starts_with("param.")) continue;
    const std::optional<GradientName> name = parse_gradient_name(tensor.name);
    ZP_CHECK(name, ErrorCode::config,
             reader_.label() + ": tensor " + shown_name(tensor.name) + " has no known name",
             "gradients are named grad.<step>.<micro_batch>.<parameter>, steps from 1 and "
             "micro-batches from 0",
             remedy);
    ZP_CHECK(tensor.dtype == SafeDType::f32 || tensor.dtype == SafeDType::f16 ||
                 tensor.dtype == SafeDType::bf16,
             ErrorCode::config,
             reader_.label() + ": tensor " + shown_name(tensor.name) + " is " +
                 std::string(zeroproof::name(tensor.dtype)),
             "gradients are F32, F16 or BF16", "convert it");
    const auto [seen, is_first] = first.emplace(name->parameter, &tensor);
    ZP_CHECK(is_first || seen->second->shape == tensor.shape, ErrorCode::config,
             reader_.label() + ": tensor " + shown_name(tensor.name) + " has the shape " +
                 shape_text(tensor.shape) + " but " + shown_name(seen->second->name) + " has " +
                 shape_text(seen->second->shape),
             "all gradients of a parameter have its shape", "record them again");
    steps_ = std::max(steps_, name->step);
    micro_batches_ = std::max(micro_batches_, name->micro_batch + 1);
    ++num_gradients_;
  }
  ZP_CHECK(num_gradients_ > 0, ErrorCode::config, reader_.label() + " has no gradients",
           "their tensors are named grad.<step>.<micro_batch>.<parameter>", remedy);
  std::int64_t numel = 0;
  for (const auto& [parameter, tensor] : first) {
    params_.push_back({parameter, tensor->shape});
    numel += tensor->numel();
  }
  ZP_CHECK(numel > 0, ErrorCode::config, reader_.label() + ": all parameters are empty",
           "there is nothing to compare", "record gradients with elements");
}

void RecordedGradients::check_complete() {
  // At most 10^6 * 2^20 * 2^19 < 2^63; a gap is found after at most one more lookup than there are
  // tensors.
  if (num_gradients_ == steps_ * micro_batches_ * static_cast<std::int64_t>(params_.size())) return;
  for (std::int64_t step = 1; step <= steps_; ++step) {
    for (std::int64_t j = 0; j < micro_batches_; ++j) {
      for (const ParamSpec& param : params_) {
        const std::string name = gradient_name(step, j, param.name);
        ZP_CHECK(reader_.find(name) != nullptr, ErrorCode::config,
                 reader_.label() + ": tensor " + shown_name(name) + " is missing",
                 "the recording has " + std::to_string(steps_) + " steps of " +
                     std::to_string(micro_batches_) +
                     " micro-batches, and each needs every parameter",
                 "record zeros for a parameter without a gradient");
      }
    }
  }
}

void RecordedGradients::check_initial() {
  std::map<std::string_view, const ParamSpec*> known;
  for (const ParamSpec& param : params_) known.emplace(param.name, &param);
  for (const SafeTensor& tensor : reader_.header().tensors) {
    if (!tensor.name.starts_with("param.")) continue;
    has_initial_ = true;
    const auto found = known.find(std::string_view(tensor.name).substr(6));
    ZP_CHECK(found != known.end(), ErrorCode::config,
             reader_.label() + ": tensor " + shown_name(tensor.name) + " has no gradients",
             "it would never change", "leave it out, or record its gradients");
    const ParamSpec* const param = found->second;
    ZP_CHECK(tensor.dtype == SafeDType::f32 && tensor.shape == param->shape, ErrorCode::config,
             reader_.label() + ": tensor " + shown_name(tensor.name) + " is " +
                 std::string(zeroproof::name(tensor.dtype)) + " " + shape_text(tensor.shape) +
                 ", not F32 " + shape_text(param->shape),
             "it has the first values of the master weights", "store it in that form");
  }
  if (!has_initial_) return;
  for (const ParamSpec& param : params_) {
    ZP_CHECK(reader_.find("param." + param.name) != nullptr, ErrorCode::config,
             reader_.label() + ": tensor " + shown_name("param." + param.name) + " is missing",
             "first values must be there for all parameters or for none",
             "add it, or remove the others");
  }
}

void RecordedGradients::check_metadata() {
  const auto number = [&](const char* key, std::int64_t otherwise) {
    const auto entry = reader_.metadata().find(key);
    if (entry == reader_.metadata().end()) return otherwise;
    const auto value = plain_number(entry->second);
    ZP_CHECK(value, ErrorCode::config,
             reader_.label() + ": metadata " + key + " is " + shown_name(entry->second),
             "it must be a whole number", "write digits, or leave it out");
    return *value;
  };
  for (const auto& [key, there] :
       {std::pair{"steps", steps_}, std::pair{"micro_batches", micro_batches_}}) {
    const std::int64_t said = number(key, there);
    ZP_CHECK(said == there, ErrorCode::config,
             reader_.label() + ": metadata " + key + " says " + std::to_string(said) +
                 " but there are gradients of " + std::to_string(there),
             "gradients are missing, or the number is wrong",
             "record them again, or correct the number");
  }
  const std::int64_t scale = number("loss_scale_log2", 0);
  ZP_CHECK(scale >= -126 && scale <= 126, ErrorCode::config,
           reader_.label() + ": metadata loss_scale_log2 is " + std::to_string(scale),
           "this is outside the range of loss scales", "use -126 to 126");
  log2_loss_scale_ = static_cast<int>(scale);
  const SafeTensor* loss = reader_.find("loss");
  ZP_CHECK(
      loss == nullptr || ((loss->dtype == SafeDType::f64 || loss->dtype == SafeDType::f32) &&
                          loss->shape == std::vector<std::int64_t>{steps_, micro_batches_}),
      ErrorCode::config,
      reader_.label() + ": tensor 'loss' is not F64 or F32 " + shape_text({steps_, micro_batches_}),
      "it has one value per micro-batch", "correct it, or leave it out");
}

void RecordedGradients::put_in_order() {
  const auto entry = reader_.metadata().find("order");
  if (entry == reader_.metadata().end()) return;
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const ParamSpec& param : params_) shapes.emplace(param.name, param.shape);
  params_.clear();
  std::string_view rest = entry->second;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string name(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const auto shape = shapes.find(name);
    ZP_CHECK(shape != shapes.end(), ErrorCode::config,
             reader_.label() + ": metadata order lists " + shown_name(name) +
                 ", which has no gradients or is listed twice",
             "it must list every parameter once, one per line", "correct it, or leave it out");
    params_.push_back({name, shape->second});
    shapes.erase(shape);
  }
  ZP_CHECK(shapes.empty(), ErrorCode::config,
           reader_.label() + ": metadata order does not list " +
               shown_name(shapes.empty() ? "" : shapes.begin()->first),
           "it must list every parameter once, one per line", "correct it, or leave it out");
}

}  // namespace zeroproof::workload
