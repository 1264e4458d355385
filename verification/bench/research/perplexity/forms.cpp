#include "verification/bench/research/perplexity/forms.hpp"

#include <numeric>

#include "common/base/float_formats.hpp"
#include "common/base/parallel_for.hpp"
#include "common/step/portable_math64.hpp"
#include "verification/compare/judge/dense_baseline.hpp"

namespace zeroproof::perplexity {
namespace {

using namespace zeroproof::verification;

/// The first part of the 111,718 bytes of the project's text is for training; the rest is held out.
constexpr std::ptrdiff_t trained_bytes = 100'000;

template <ScaleRecipe recipe>
void scaled(RunConfig& config) {
  config.scaling = scaling_of(recipe);
}

template <StateFormat first, StateFormat second>
void state(RunConfig& config) {
  config.state_formats = {first, second};
}

template <ParamRounding rounding>
void bf16_master(RunConfig& config) {
  config.state_formats.master = MasterFormat::bf16;
  config.param_rounding = rounding;
}

/// The main job with fewer layers and channels. Matrices are larger than a block of 128 by 128, and no multiple of it.
RunConfig config_of(const Form& form, std::uint64_t seed) {
  RunConfig config = workload_defaults("byte_gpt");
  config.model = {2, 48, 4, 192, 32};
  config.seed = seed;
  config.steps = points[std::size(points) - 1];
  form.change(config);
  return config;
}

/// The parameters that the model reads, in fp32. [padded_numel]
std::vector<float> widened(const Experiment& experiment,
                           const reference::DenseOptimizer& optimizer) {
  GuardedBuffer decoded;
  const TensorView params = params_of_model(experiment, optimizer, decoded);
  std::vector<float> wide(params.numel);
  for (std::size_t i = 0; i < wide.size(); ++i)
    wide[i] = load_element(params, static_cast<std::int64_t>(i));
  return wide;
}

double perplexity_of(const workload::ByteGptShape& shape, const FlatLayout& layout,
                     Span<const float> params, Span<const std::uint8_t> text) {
  const std::int64_t windows = (std::ssize(text) - 1) / shape.context;
  std::vector<double> losses(windows);
  parallel_for(available_cores(), windows, [&](std::int64_t i) {
    const auto length = static_cast<std::size_t>(shape.context);
    losses[i] = workload::byte_gpt_loss<float>(
        shape, layout, params, text.subspan(static_cast<std::size_t>(i) * length, length + 1));
  });
  return portable_math64::exp(std::accumulate(losses.begin(), losses.end(), 0.0) /
                              static_cast<double>(windows));
}

}  // namespace

const std::vector<Form>& forms() {
  using S = StateFormat;
  static const std::vector<Form> all = {
      {"parameters bf16, state fp32"},
      {"parameters fp32", DType::fp32},
      {"parameters e4m3, current", DType::e4m3, scaled<ScaleRecipe::current>},
      {"parameters e4m3, delayed", DType::e4m3, scaled<ScaleRecipe::delayed>},
      {"parameters e4m3, blockwise", DType::e4m3, scaled<ScaleRecipe::blockwise>},
      {"parameters e4m3, mxfp8", DType::e4m3, scaled<ScaleRecipe::mxfp8>},
      {"exp_avg bf16, exp_avg_sq bf16", DType::bf16, state<S::bf16, S::bf16>},
      {"exp_avg fp16, exp_avg_sq fp16", DType::bf16, state<S::fp16, S::fp16>},
      {"exp_avg e4m3, exp_avg_sq bf16", DType::bf16, state<S::e4m3, S::bf16>},
      {"exp_avg e4m3, exp_avg_sq e4m3", DType::bf16, state<S::e4m3, S::e4m3>},
      {"master bf16, to nearest", DType::bf16, bf16_master<ParamRounding::nearest>},
      {"master bf16, stochastic", DType::bf16, bf16_master<ParamRounding::stochastic>},
  };
  return all;
}

std::vector<double> perplexities(const Form& form, std::uint64_t seed, std::size_t num_points) {
  const RunConfig config = config_of(form, seed);
  workload::Text text = load_text(config);
  const std::vector<std::uint8_t> held_out(text.bytes.begin() + trained_bytes, text.bytes.end());
  text.bytes.resize(trained_bytes);
  const Experiment experiment("byte_gpt", config, form.params, std::move(text), "adamw");
  const workload::ByteGptShape shape = model_shape("byte_gpt", config.model);
  GradCache leaves(experiment);
  DenseBaseline run(experiment, leaves);
  std::vector<double> found;
  for (std::int64_t step = 1; found.size() < num_points; ++step) {
    run.step(step);
    leaves.forget();
    if (step == points[found.size()])
      found.push_back(perplexity_of(shape, experiment.layout(),
                                    widened(experiment, run.optimizer()), held_out));
  }
  return found;
}

}  // namespace zeroproof::perplexity
