// Whether the values of a configuration make sense together.

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/shown.hpp"
#include "common/layout/flat_layout.hpp"
#include "common/layout/process_grid.hpp"
#include "verification/cases/config/config.hpp"

namespace zeroproof {
namespace {

void validate_optimizer(const OptimizerHyper& o) {
  ZP_CHECK(std::isfinite(o.lr) && o.lr >= 0, ErrorCode::config, "optimizer.lr is " + shown(o.lr),
           "it scales every update", "use a finite number of 0 or more");
  for (const auto& [key, beta] : {std::pair{"beta1", o.beta1}, std::pair{"beta2", o.beta2}}) {
    ZP_CHECK(beta >= 0 && beta < 1, ErrorCode::config,
             std::string("optimizer.") + key + " is " + shown(beta),
             "it is the decay of a moving average", "use a value in [0, 1)");
  }
  for (const auto& [key, beta] : {std::pair{"beta1", o.beta1}, std::pair{"beta2", o.beta2}}) {
    ZP_CHECK(1.0 - static_cast<double>(beta) >= 0x1p-23, ErrorCode::config,
             std::string("optimizer.") + key + " is " + shown(beta),
             "in fp32 1 - beta would be less than 2^-23, rule R5", "use a smaller value");
  }
  ZP_CHECK(std::isfinite(o.eps) && static_cast<float>(o.eps) >= 0x1p-126F, ErrorCode::config,
           "optimizer.eps is " + shown(o.eps),
           "the update divides by sqrt(v) + eps, and v can be 0",
           "use a normal positive fp32 number such as 1e-8");
  ZP_CHECK(std::isfinite(o.weight_decay) && o.weight_decay >= 0, ErrorCode::config,
           "optimizer.weight_decay is " + shown(o.weight_decay),
           "a negative decay increases the parameters", "use a finite number of 0 or more");
  for (const auto& [key, value] :
       {std::pair{"momentum", o.momentum}, std::pair{"dampening", o.dampening}}) {
    ZP_CHECK(value >= 0 && value <= 1, ErrorCode::config,
             std::string("optimizer.") + key + " is " + shown(value),
             "it weights a term of the momentum buffer", "use a value in [0, 1]");
  }
  const RuleTraits& rule = traits_of(o.rule);
  ZP_CHECK(
      rule.momentum() || rule.matrices || o.momentum == 0, ErrorCode::config,
      "optimizer.momentum is " + shown(o.momentum) + " with the rule " + std::string(rule.name),
      "only sgd has a momentum buffer, and muon a momentum of matrices",
      "set optimizer.rule to \"sgd\" or \"muon\", or leave it at 0");
  ZP_CHECK(
      rule.momentum() || o.dampening == 0, ErrorCode::config,
      "optimizer.dampening is " + shown(o.dampening) + " with the rule " + std::string(rule.name),
      "only sgd has a momentum buffer with dampening",
      "set optimizer.rule to \"sgd\", or leave it at 0");
  ZP_CHECK(
      !o.nesterov || ((rule.momentum() || rule.matrices) && o.momentum > 0 && o.dampening == 0),
      ErrorCode::config, "optimizer.nesterov is true with the rule " + std::string(rule.name),
      "Nesterov momentum needs a momentum without dampening",
      "use the rule sgd or muon with momentum above 0 and dampening 0");
  ZP_CHECK(!o.amsgrad || rule.amsgrad(), ErrorCode::config,
           "optimizer.amsgrad is true with the rule " + std::string(rule.name),
           "that rule does not keep the largest second moment", "use adamw or adam");
  ZP_CHECK(
      !o.clip_value || (std::isfinite(*o.clip_value) && static_cast<float>(*o.clip_value) > 0 &&
                        std::isfinite(static_cast<float>(*o.clip_value))),
      ErrorCode::config, "optimizer.clip_value is " + shown(o.clip_value.value_or(0)),
      "elements are clipped to plus or minus this value",
      "use a positive fp32 number, or leave it out");
  ZP_CHECK(!o.max_norm || (std::isfinite(*o.max_norm) && *o.max_norm >= 0), ErrorCode::config,
           "optimizer.max_norm is " + shown(o.max_norm.value_or(0)),
           o.max_norm.value_or(0) < 0 ? "a negative limit would change the sign of every gradient"
                                      : "the limit of a norm is a number",
           "use a positive number, or 0 for no clipping");
}

/// Settings of [muon] and [[matrix_split]]: out of range under the rule muon, or set under another
/// one.
void validate_muon(const RunConfig& config) {
  const OptimizerHyper& o = config.optimizer;
  const NewtonSchulzOptions& n = o.muon.newton_schulz;
  if (!traits_of(o.rule).matrices) {
    const RunConfig plain;
    const bool same = o.muon == plain.optimizer.muon && config.muon_adamw == plain.muon_adamw &&
                      config.matrix_splits.empty() && config.matrix_owners == plain.matrix_owners &&
                      config.matrix_tensor_parallel == plain.matrix_tensor_parallel;
    ZP_CHECK(
        same, ErrorCode::config,
        "[muon] or [[matrix_split]] is set with the rule " + std::string(traits_of(o.rule).name),
        "only the rule muon updates matrices", "set optimizer.rule to \"muon\", or leave them out");
    return;
  }
  ZP_CHECK(o.muon.family != MomentumFamily::ema || o.momentum < 1, ErrorCode::config,
           "optimizer.momentum is 1 with the family ema of muon",
           "a gradient has the weight 1 - momentum, so that no matrix would change, rule R28",
           "use a momentum below 1, or muon.family = \"heavy_ball\"");
  ZP_CHECK(n.steps >= 1 && n.steps <= 64, ErrorCode::config,
           "muon.steps is " + std::to_string(n.steps),
           "it is a number of Newton-Schulz iterations, rule R28", "use 1 to 64");
  ZP_CHECK(std::isfinite(n.eps) && n.eps >= 0x1p-126, ErrorCode::config,
           "muon.eps is " + shown(n.eps), "a matrix is divided by its norm, which can be 0",
           "use a finite number of 2^-126 or more, such as 1e-7");
  ZP_CHECK(std::isfinite(o.muon.scale_factor) && o.muon.scale_factor > 0, ErrorCode::config,
           "muon.scale_factor is " + shown(o.muon.scale_factor),
           "it multiplies the step of every matrix", "use a finite number above 0");
  ZP_CHECK(!n.rounds_first || n.factors == MatrixFactors::bf16, ErrorCode::config,
           "muon.rounds_first is true with factors in fp32", "it would round nothing, rule R28",
           "use factors = \"bf16\", or leave rounds_first out");
}

void validate_model(const ModelConfig& m) {
  for (const auto& [key, value] :
       {std::pair{"layers", m.layers}, std::pair{"width", m.width}, std::pair{"heads", m.heads},
        std::pair{"hidden", m.hidden}, std::pair{"context", m.context}}) {
    ZP_CHECK(value >= 1 && value <= 65536, ErrorCode::config,
             std::string("model.") + key + " is " + std::to_string(value),
             "it is a size of the model", "use a value from 1 to 65536");
  }
  ZP_CHECK(m.width % m.heads == 0, ErrorCode::config,
           "model.width " + std::to_string(m.width) + " is not divisible by model.heads " +
               std::to_string(m.heads),
           "every head has width / heads channels", "change one of the two");
}

void validate_scaler(const LossScalerConfig& s, std::int64_t divisor, bool tokens) {
  for (const auto& [key, value] :
       {std::pair{"growth_interval", s.growth_interval}, std::pair{"hysteresis", s.hysteresis}}) {
    ZP_CHECK(value >= 1, ErrorCode::config,
             std::string("loss_scaler.") + key + " is " + std::to_string(value),
             "it is a number of steps", "use 1 or more");
  }
  ZP_CHECK(s.log2_growth >= 1, ErrorCode::config,
           "loss_scaler.growth_factor is 2^" + std::to_string(s.log2_growth),
           "the scale is multiplied by it to grow", "use 2 or more");
  ZP_CHECK(s.log2_backoff >= 1, ErrorCode::config,
           "loss_scaler.backoff_factor is 2^" + std::to_string(-s.log2_backoff),
           "the scale is multiplied by it to shrink", "use 0.5 or less");
  ZP_CHECK(s.log2_min <= s.log2_initial && s.log2_initial <= s.log2_max, ErrorCode::config,
           "loss_scaler.initial_loss_scale 2^" + std::to_string(s.log2_initial) + " is outside 2^" +
               std::to_string(s.log2_min) + " to 2^" + std::to_string(s.log2_max),
           "the scale is limited to that range",
           "move min_loss_scale, max_loss_scale or the initial value");
  ZP_CHECK(
      s.log2_min >= -126, ErrorCode::config,
      "loss_scaler.min_loss_scale is 2^" + std::to_string(s.log2_min),
      "its product with the divisor of the gradient sum must stay a normal fp32 number, rule R5",
      "use 2^-126 or more");
  ZP_CHECK(std::ldexp(static_cast<double>(divisor), s.log2_max) <= 0x1p126, ErrorCode::config,
           "loss_scaler.max_loss_scale is 2^" + std::to_string(s.log2_max),
           "times " + std::to_string(divisor) + (tokens ? " tokens" : " micro-batches") +
               " it exceeds 2^126, rule R5",
           "lower max_loss_scale");
}

void validate_offload(const OffloadConfig& o) {
  ZP_CHECK(!o.fractions.empty() && !o.orders.empty() && !o.places.empty() &&
               !o.chunk_numels.empty() && !o.overlaps.empty() && !o.grads.empty(),
           ErrorCode::config,
           "one of offload.fractions, orders, places, chunk_numels, overlaps, grads is empty",
           "no case would remain", "give at least one value each");
  for (const double fraction : o.fractions) {
    ZP_CHECK(fraction >= 0 && fraction <= 1, ErrorCode::config,
             "offload.fractions has " + shown(fraction),
             "it is a fraction of a rank's state elements", "use numbers from 0 to 1");
  }
  for (const std::int64_t numel : o.chunk_numels) {
    ZP_CHECK(numel >= 1, ErrorCode::config, "offload.chunk_numels has " + std::to_string(numel),
             "state is transferred in chunks", "use 1 or more elements");
  }
}

/// Process grids and layouts, and their requirements on the norm and the gradient sum.
void validate_ranks(const RunConfig& config) {
  ZP_CHECK(config.instances >= 1, ErrorCode::config,
           "run.instances is " + std::to_string(config.instances),
           "it is the number of optimizer instances", "use 1 or more");
  ZP_CHECK(config.persistent_numel >= 0, ErrorCode::config,
           "run.persistent_numel is " + std::to_string(config.persistent_numel),
           "tensors of at most that many elements stay whole", "use 0 (none) or more");
  const bool chunks = config.optimizer.norm == NormForm::chunk1024;
  for (const LayoutKind layout : config.layouts) {
    ZP_CHECK(
        layout == LayoutKind::contract || !chunks, ErrorCode::config,
        "optimizer.norm is \"chunk1024\" with the layout \"" + std::string(name(layout)) + "\"",
        "that layout splits chunks, rule R12",
        "set optimizer.norm to \"exact\", \"inf\" or \"one\"");
  }
  for (const std::string& text : config.grids) {
    const ProcessGrid grid = parse_grid(text);
    ZP_CHECK(grid.tp == 1 || !chunks, ErrorCode::config,
             "optimizer.norm is \"chunk1024\" with the process grid " + text,
             "tensor parallelism splits chunks, rule R12",
             "set optimizer.norm to \"exact\", \"inf\" or \"one\"");
    ZP_CHECK(grid.data_ranks() % config.instances == 0, ErrorCode::config,
             "run.instances " + std::to_string(config.instances) + " does not divide the " +
                 std::to_string(grid.data_ranks()) + " data ranks of the process grid " + text,
             "all instances have the same number of ranks, rule R11", "change one of the two");
    const bool binned =
        std::ranges::find(config.grad_sums, GradSum::binned) != config.grad_sums.end();
    ZP_CHECK(!binned || grid.data_ranks() / config.instances % grid.cp == 0, ErrorCode::config,
             "run.grad_sums has \"binned\" with " + std::to_string(config.instances) +
                 " instances of the process grid " + text,
             "the CP ranks of a micro-batch would be in several instances, rule R11",
             "use fewer instances, or \"tree\"");
    const bool halves = std::ranges::find(config.dtypes, DType::fp16) != config.dtypes.end();
    ZP_CHECK(!halves || (grid.cp == 1 && grid.tp == 1), ErrorCode::config,
             "run.dtypes has \"fp16\" with the process grid " + text,
             "its gradients are rounded to 16 bits, and the parts of one on CP and TP ranks cannot "
             "be, rule R11",
             "set run.dtypes to [\"bf16\"] or [\"fp32\"]");
  }
  for (const GradSum sum : config.grad_sums) {
    ZP_CHECK(
        sum != GradSum::binned || config.micro_batches <= 128, ErrorCode::config,
        "run.grad_sums has \"binned\" with " + std::to_string(config.micro_batches) + " leaves",
        "more than 128 can overflow a bin, rule R11", "lower run.micro_batches, or use \"tree\"");
  }
}

/// Checked for every recipe: a value out of range is an error even where it is not used.
void validate_scaling(const ParamScaling& s) {
  ZP_CHECK(std::isfinite(s.epsilon) && s.epsilon >= 0, ErrorCode::config,
           "scaling.epsilon is " + shown(s.epsilon), "it replaces a smaller amax, rule R22",
           "use a finite fp32 number of 0 or more");
  ZP_CHECK(s.margin >= 0 && s.margin <= 64, ErrorCode::config,
           "scaling.margin is " + std::to_string(s.margin),
           "it is a number of spare exponent bits, rule R22", "use 0 to 64");
  ZP_CHECK(s.history >= 1 && s.history <= 1024, ErrorCode::config,
           "scaling.history is " + std::to_string(s.history),
           "it has one slot for the current step and up to 1023 earlier ones, rule R22",
           "use 1 to 1024");
}

/// No group's min_lr is above its lr, and no lr that divides is 0.
void validate_floors(const RunConfig& config) {
  if (config.schedule.decay == DecayShape::constant || config.schedule.decay == DecayShape::table)
    return;
  std::vector<GroupRule> groups = config.param_groups;
  groups.insert(groups.begin(), GroupRule{});
  for (const GroupRule& group : groups) {
    const double rate = group.lr.value_or(config.optimizer.lr);
    const double floor = group.min_lr.value_or(config.schedule.min_lr);
    const std::string whose = group.name.empty() ? "" : " of param group '" + group.name + "'";
    ZP_CHECK(floor <= rate, ErrorCode::config,
             "min_lr " + shown(floor) + whose + " is above its lr " + shown(rate),
             "the rate would increase during the decay of the schedule",
             "lower min_lr in [schedule] or [[param_group]]");
  }
}

}  // namespace

void validate(const RunConfig& config) {
  ZP_CHECK(config.steps >= 1 && config.steps <= 1'000'000, ErrorCode::config,
           "run.steps is " + std::to_string(config.steps), "a run of no steps proves nothing",
           "use a value from 1 to 1000000");
  ZP_CHECK(config.micro_batches >= 1 && config.micro_batches <= 1 << 20, ErrorCode::config,
           "run.micro_batches is " + std::to_string(config.micro_batches),
           "the gradient is a mean over micro-batches", "use a value from 1 to 1048576");
  ZP_CHECK(
      !config.stages.empty() && !config.worlds.empty() && !config.dtypes.empty() &&
          !config.bucket_numels.empty() && !config.omp_threads.empty() && !config.orders.empty() &&
          !config.layouts.empty() && !config.grad_sums.empty() && !config.windows.empty() &&
          !config.transport.empty(),
      ErrorCode::config,
      "one of run.stages, worlds, dtypes, bucket_numels, omp_threads, orders, layouts, grad_sums, "
      "windows, transport is empty",
      "no case would remain", "give at least one value each");
  ZP_CHECK(config.initial_step >= -1 && config.initial_step <= 4'000'000'000, ErrorCode::config,
           "run.initial_step is " + std::to_string(config.initial_step),
           "stochastic rounding counts steps in 32 bits, rule R8",
           "use -1 (7 with a seeded state, else 0) to 4000000000");
  ZP_CHECK(config.overflow_step >= 0, ErrorCode::config,
           "run.overflow_step is " + std::to_string(config.overflow_step), "it is a step number",
           "use 0 (never) or the number of a step");
  for (const int stage : config.stages) {
    ZP_CHECK(stage >= 0 && stage <= 3, ErrorCode::config,
             "ZeRO stage " + std::to_string(stage) + " does not exist",
             "the stages are 0, 1, 2 and 3", "use one of them");
  }
  for (const std::int64_t bucket : config.bucket_numels) {
    ZP_CHECK(bucket >= layout_alignment && bucket % layout_alignment == 0, ErrorCode::config,
             "run.bucket_numels has " + std::to_string(bucket),
             "bucket boundaries are multiples of 1024 elements", "use a positive multiple of 1024");
  }
  for (const int threads : config.omp_threads) {
    ZP_CHECK(threads >= 0 && threads <= 1024, ErrorCode::config,
             "run.omp_threads has " + std::to_string(threads),
             "it is the number of worker threads of one rank", "use 0 (automatic) to 1024");
  }
  ZP_CHECK(config.comm_timeout_s > 0 && config.comm_timeout_s <= 86400, ErrorCode::config,
           "run.comm_timeout_s is " + shown(config.comm_timeout_s),
           "it is the time limit of communication", "use more than 0 and at most 86400 seconds");
  for (const DType dtype : config.dtypes) {
    ZP_CHECK(
        config.param_rounding == ParamRounding::nearest || dtype == DType::bf16, ErrorCode::config,
        "run.param_rounding is \"stochastic\" with " + std::string(name(dtype)) + " parameters",
        "stochastic rounding is defined for bf16 only",
        "set run.dtypes to [\"bf16\"], or round to nearest");
    ZP_CHECK(config.state_formats.master == MasterFormat::fp32 || dtype == DType::bf16,
             ErrorCode::config,
             "optimizer.master_dtype is \"bf16\" with " + std::string(name(dtype)) + " parameters",
             "the parameter is the master then, rule R25",
             "set run.dtypes to [\"bf16\"], or keep a master in fp32");
  }
  validate_model(config.model);
  validate_optimizer(config.optimizer);
  validate_muon(config);
  validate_ranks(config);
  validate_offload(config.offload);
  validate_scaling(config.scaling);
  validate(config.param_groups, config.schedule);
  validate(config.clip_groups);
  validate_floors(config);
  const bool tokens = config.loss_reduction == LossReduction::tokens;
  validate_scaler(config.scaler, config.micro_batches * (tokens ? config.model.context : 1),
                  tokens);
}

}  // namespace zeroproof
