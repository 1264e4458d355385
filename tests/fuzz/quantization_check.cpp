#include "tests/fuzz/quantization_check.hpp"

#include "common/base/error.hpp"
#include "tests/fuzz/promise.hpp"
#include "verification/tools/quantize/assignment.hpp"
#include "verification/tools/quantize/glob.hpp"

namespace zeroproof::tests {
namespace {

const std::vector<std::string> tensors = {
    "embed.weight",           "layers.0.mlp.up.weight",  "layers.0.mlp.up.bias",
    "layers.1.mlp.up.weight", "layers.10.mlp.up.weight", "head"};

void check_tensor(const QuantizationConfig& config, const TensorQuantization& tensor) {
  std::optional<std::size_t> last;
  for (const std::size_t rule : tensor.matching) {
    promise(rule < config.rules.size() && (!last || *last < rule),
            "rules are in the order of the file");
    promise(config.rules[rule].takes_part(), "disabled rules have no effect");
    promise(Glob(config.rules[rule].pattern).matches(tensor.path),
            "only matching rules are listed");
    last = rule;
  }
  promise(tensor.matching.empty() == !tensor.flag_rule.has_value(),
          "the result is from one of the matching rules");
  promise(!tensor.payload || tensor.on, "disabled tensors have no payload");
  if (tensor.flag_rule) {
    const bool first = config.semantics == QuantSemantics::megatron;
    promise(*tensor.flag_rule == (first ? tensor.matching.front() : tensor.matching.back()),
            "from the deciding rule");
  }
  if (tensor.payload) {
    const QuantPayload& p = *tensor.payload;
    const bool scaled = p.recipe != QuantRecipe::none || p.calibration != CalibrationMethod::none;
    promise(scaled == p.has_scale(), "formats with a scale have a recipe");
    promise(p.history >= 1 && p.history <= 1024 && p.bins >= 256, "values are in their ranges");
  }
}

}  // namespace

bool quantization_accepts(std::string_view text) {
  try {
    const QuantizationConfig config = parse_quantization(text, "memory");
    promise(!config.rules.empty(), "a file has rules");
    for (const QuantRule& rule : config.rules)
      promise(rule.line >= 1 && rule.pattern_line >= rule.line, "lines");
    const QuantizationAssignment made = assign(config, tensors, "memory");
    promise(made.tensors.size() == tensors.size(), "every tensor is listed");
    for (const TensorQuantization& tensor : made.tensors) check_tensor(config, tensor);
    return true;
  } catch (const Error& error) {
    promise(error.code() == ErrorCode::config ||
                (error.code() == ErrorCode::unavailable && !reads_yaml()),
            "errors are configuration errors");
    promise_sentence(error);
    return false;
  }
}

}  // namespace zeroproof::tests
