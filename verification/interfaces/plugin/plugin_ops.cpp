#include "verification/interfaces/plugin/plugin_ops.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>
#include <utility>

#include "common/base/error.hpp"
#include "cuda/distributed_optimizer.hpp"
#include "cuda/kernel_table.hpp"
#include "verification/interfaces/plugin/whole_step.hpp"
#include "verification/ops/operations/update_settings.hpp"

namespace zeroproof::verification {
namespace {

/// The table must not move: optimizers refer to it.
struct Used {
  std::shared_ptr<Plugin> plugin;
  cuda::KernelTable ops = cuda::host_ops();
};

Used& used() {
  static Used one;
  return one;
}

template <class T>
constexpr DType dtype_of = std::is_same_v<T, float>  ? DType::fp32
                           : std::is_same_v<T, bf16> ? DType::bf16
                           : std::is_same_v<T, fp16> ? DType::fp16
                                                     : DType::u32;

template <class T>
PluginOperand from(const char* name, Span<const T> span) {
  const TensorView view = {const_cast<T*>(span.data()), dtype_of<T>,
                           static_cast<std::int64_t>(span.size())};
  return {name, view, true, false, 1};
}
template <class T>
PluginOperand to(const char* name, Span<T> span) {
  return {name, {span.data(), dtype_of<T>, static_cast<std::int64_t>(span.size())}, false, true, 1};
}
PluginOperand both(const char* name, Span<float> span) {
  PluginOperand operand = to(name, span);
  operand.read = true;
  return operand;
}

void run(const char* operation, const Exec& exec, std::vector<PluginOperand> operands,
         std::vector<OpSetting> settings) {
  PluginCall call = {operation, exec.num_threads, std::move(operands), std::move(settings), false};
  used().plugin->call(call);
}

/// Operations of two buffers that may be the same.
void run_through(const char* operation, const Exec& exec, std::vector<PluginOperand> operands,
                 std::vector<OpSetting> settings) {
  const bool in_place = operands[0].view.data == operands[1].view.data;
  settings.push_back({"in_place", std::int64_t{in_place ? 1 : 0}});
  PluginCall call = {operation, exec.num_threads, std::move(operands), std::move(settings),
                     in_place};
  call.operands[1].read = in_place;
  used().plugin->call(call);
}

/// The step whose sqrt(1 - beta2^t), rounded to fp32, is `root`. Where neighbouring steps have the
/// same root, one of them: the correction has the same bits. 1 or 2 where there is none.
std::int64_t step_of(const StepScalars& scalars) {
  const double root = scalars.sqrt_bias_correction2, beta2 = scalars.beta2;
  if (scalars.is_first != 0) return 1;
  if (!(root < 1) || !(beta2 > 0)) return 2;
  const std::int64_t near = std::llround(std::log1p(-root * root) / std::log(beta2));
  for (const std::int64_t t : {near, near - 1, near + 1}) {
    const double power = std::pow(beta2, static_cast<double>(t));
    if (t > 1 && static_cast<float>(std::sqrt(1 - power)) == scalars.sqrt_bias_correction2)
      return t;
  }
  return std::max<std::int64_t>(2, near);
}

/// Settings of an update in a step: its scalars of R5, the flags of its rule, and the settings that
/// the scalars show, as fp32.
std::vector<OpSetting> settings_of(const StepScalars& scalars, OptimizerHyper hyper) {
  hyper.lr = scalars.lr;
  hyper.eps = scalars.eps;
  hyper.weight_decay = scalars.weight_decay;
  hyper.dampening = 1 - double{scalars.one_minus_dampening};
  hyper.bias_correction = scalars.sqrt_bias_correction2 != 1 || scalars.step_size != scalars.lr;
  return described({hyper, step_of(scalars), scalars});
}

template <const auto& name>
void adam(const Exec& exec, const AdamOptions& options, const StepScalars& scalars,
          Span<const float> grad, Span<float> master, Span<float> exp_avg, Span<float> exp_avg_sq,
          Span<float> max_exp_avg_sq) {
  OptimizerHyper flags;
  flags.amsgrad = options.amsgrad;
  flags.maximize = options.maximize;
  run(name, exec,
      {from("grad", grad), both("master", master), both("exp_avg", exp_avg),
       both("exp_avg_sq", exp_avg_sq), both("max_exp_avg_sq", max_exp_avg_sq)},
      settings_of(scalars, flags));
}

void sgd(const Exec& exec, const SgdOptions& options, const StepScalars& scalars,
         Span<const float> grad, Span<float> master, Span<float> momentum_buffer) {
  OptimizerHyper flags;
  flags.momentum = options.momentum ? double{scalars.momentum} : 0;
  flags.nesterov = options.nesterov;
  flags.maximize = options.maximize;
  run("sgd_update", exec,
      {from("grad", grad), both("master", master), both("momentum_buffer", momentum_buffer)},
      settings_of(scalars, flags));
}

template <const auto& name, class Options>
void average(const Exec& exec, const Options& options, const StepScalars& scalars,
             Span<const float> grad, Span<float> master, Span<float> exp_avg) {
  OptimizerHyper flags;
  flags.maximize = options.maximize;
  run(name, exec, {from("grad", grad), both("master", master), both("exp_avg", exp_avg)},
      settings_of(scalars, flags));
}

void lamb(const Exec& exec, const LambOptions& options, const StepScalars& scalars,
          float trust_ratio, Span<const float> grad, Span<float> master, Span<float> exp_avg,
          Span<float> exp_avg_sq) {
  OptimizerHyper flags;
  flags.maximize = options.maximize;
  std::vector<OpSetting> settings = settings_of(scalars, flags);
  settings.push_back({"trust_ratio", double{trust_ratio}});
  run("lamb_update", exec,
      {from("grad", grad), both("master", master), both("exp_avg", exp_avg),
       both("exp_avg_sq", exp_avg_sq)},
      std::move(settings));
}

void momentum(const Exec& exec, const MuonMomentumOptions& options, const StepScalars& scalars,
              Span<const float> grad, Span<float> exp_avg, Span<float> direction) {
  OptimizerHyper flags;
  flags.rule = UpdateRule::muon;
  flags.momentum = scalars.momentum;
  flags.nesterov = options.nesterov;
  flags.maximize = options.maximize;
  if (scalars.one_minus_dampening == 1 && scalars.momentum != 0)
    flags.muon.family = MomentumFamily::heavy_ball;
  run("muon_momentum", exec,
      {from("grad", grad), both("exp_avg", exp_avg), to("direction", direction)},
      described_momentum({flags, step_of(scalars), scalars}));
}

void orthogonalise(const Exec& exec, const NewtonSchulzOptions& options, std::int64_t rows,
                   std::int64_t columns, Span<const float> matrix, Span<float> orthogonal) {
  PluginOperand left = from("matrix", matrix), right = to("orthogonal", orthogonal);
  left.per_element = right.per_element = columns;
  run_through("newton_schulz", exec, {std::move(left), std::move(right)},
              described(options, rows, columns));
}

float step_size(const MuonSettings& settings, const StepScalars& scalars, std::int64_t rows,
                std::int64_t columns) {
  const auto row = static_cast<std::uint32_t>(rows), column = static_cast<std::uint32_t>(columns);
  float result = 0;
  std::uint32_t refused = 0;
  run("muon_step_size", {},
      {from("rows", Span<const std::uint32_t>(&row, 1)),
       from("columns", Span<const std::uint32_t>(&column, 1)),
       to("step_size", Span<float>(&result, 1)), to("refused", Span<std::uint32_t>(&refused, 1))},
      described(settings, scalars));
  return result;
}

void muon_update(const Exec& exec, const StepScalars& scalars, float step_size,
                 Span<const float> orthogonal, Span<float> master) {
  run("muon_update", exec, {from("orthogonal", orthogonal), both("master", master)},
      {{"step_size", double{step_size}},
       {"scalar.lr_weight_decay", double{scalars.lr_weight_decay}},
       {"scalar.has_decay", std::int64_t{scalars.has_decay}}});
}

bool unscale(const Exec& exec, float inv_scale, Span<const float> grad_sum,
             Span<float> unscaled_grad) {
  std::array<std::uint32_t, 1> found_inf = {};
  run_through("unscale", exec,
              {from("grad_sum", grad_sum), to("unscaled_grad", unscaled_grad),
               to("found_inf", Span<std::uint32_t>(found_inf))},
              {{"inv_scale", double{inv_scale}}});
  return found_inf[0] != 0;
}

void clip(const Exec& exec, float clip_coef, Span<const float> unscaled_grad, Span<float> grad) {
  run_through("clip", exec, {from("unscaled_grad", unscaled_grad), to("grad", grad)},
              {{"clip_coef", double{clip_coef}}});
}

void clip_value(const Exec& exec, float limit, Span<float> grad) {
  run("clip_value", exec, {both("grad", grad)}, {{"clip_value", double{limit}}});
}

template <const auto& name, class From, class To>
void cast(const Exec& exec, Span<const From> source, Span<To> target) {
  run(name, exec, {from("source", source), to("target", target)}, {});
}

void stochastic(const Exec& exec, const RoundingDraw& draw, Span<const float> source,
                Span<bf16> target) {
  run("stochastic_cast_to_bf16", exec, {from("source", source), to("target", target)},
      {{"seed", draw.seed}, {"step", draw.step}, {"first_index", draw.first_index}});
}

constexpr char adamw_name[] = "adamw_update", adam_name[] = "adam_update",
               ema_name[] = "sgd_ema_update", lion_name[] = "lion_update",
               bf16_name[] = "cast_to_bf16", fp16_name[] = "cast_to_fp16",
               widen_bf16_name[] = "widen_bf16", widen_fp16_name[] = "widen_fp16";

/// The host's implementations, except for those the plug-in has.
cuda::KernelTable table(const Plugin& plugin) {
  cuda::KernelTable ops = cuda::host_ops();
  const auto put = [&](const char* name, auto& entry, auto* implementation) {
    if (plugin.has(name)) entry = implementation;
  };
  put(adamw_name, ops.adamw_update, adam<adamw_name>);
  put(adam_name, ops.adam_update, adam<adam_name>);
  put("sgd_update", ops.sgd_update, sgd);
  put(ema_name, ops.sgd_ema_update, average<ema_name, SgdEmaOptions>);
  put(lion_name, ops.lion_update, average<lion_name, LionOptions>);
  put("lamb_update", ops.lamb_update, lamb);
  put("muon_momentum", ops.muon_momentum, momentum);
  put("newton_schulz", ops.newton_schulz, orthogonalise);
  put("muon_step_size", ops.muon_step_size, step_size);
  put("muon_update", ops.muon_update, muon_update);
  put("unscale", ops.unscale, unscale);
  put("clip", ops.clip, clip);
  put("clip_value", ops.clip_value, clip_value);
  put(bf16_name, ops.cast_to_bf16, cast<bf16_name, float, bf16>);
  put(fp16_name, ops.cast_to_fp16, cast<fp16_name, float, fp16>);
  put("stochastic_cast_to_bf16", ops.stochastic_cast_to_bf16, stochastic);
  put(widen_bf16_name, ops.widen_bf16, cast<widen_bf16_name, bf16, float>);
  put(widen_fp16_name, ops.widen_fp16, cast<widen_fp16_name, fp16, float>);
  return ops;
}

}  // namespace

void use_in_steps(std::shared_ptr<Plugin> plugin) {
  used().ops = table(*plugin);
  used().plugin = std::move(plugin);
}

void end_plugin_process() {
  if (used().plugin) used().plugin->end();
}

std::unique_ptr<DistributedOptimizer> make_plugin_optimizer(const OptimizerSetup& setup) {
  const Plugin* plugin = used().plugin.get();
  ZP_CHECK(plugin != nullptr, ErrorCode::config, "a step of a plug-in is selected",
           "there is no plug-in", "add --plugin FILE");
  const RuleTraits& rule = traits_of(setup.hyper.rule);
  const std::string update = std::string(rule.name) + "_update";
  // A matrix is updated by several operations (R28).
  const bool any = rule.matrices && (plugin->has("newton_schulz") || plugin->has("muon_momentum") ||
                                     plugin->has("muon_step_size"));
  ZP_CHECK(any || plugin->has(update), ErrorCode::unavailable,
           "the plug-in " + plugin->name() + " does not have " + update,
           "the recipe's rule needs this update", "use a recipe whose update the plug-in has");
  return cuda::make_distributed_optimizer(setup, used().ops);
}

std::unique_ptr<DistributedOptimizer> make_plugin_step(const OptimizerSetup& setup) {
  const std::shared_ptr<Plugin>& plugin = used().plugin;
  ZP_CHECK(plugin != nullptr, ErrorCode::config, "a step of a plug-in is selected",
           "there is no plug-in", "add --plugin FILE");
  return make_whole_step(setup, plugin);
}

}  // namespace zeroproof::verification
