#include "verification/cases/config/config_write.hpp"

#include <algorithm>
#include <cmath>

#include "common/base/error.hpp"
#include "common/step/muon_names.hpp"
#include "verification/cases/config/toml.hpp"

namespace zeroproof {
namespace {

template <class Item, class Shown>
Json list_of(const std::vector<Item>& items, const Shown& shown) {
  Json list = Json::array();
  for (const Item& item : items) list.push_back(shown(item));
  return list;
}

/// The items themselves, or the names of an enumeration's values.
const auto itself = [](const auto& item) { return item; };
const auto number = [](const auto& item) { return static_cast<std::int64_t>(item); };
const auto named = [](const auto& item) { return std::string(name(item)); };

Json run_table(const RunConfig& c) {
  ZP_CHECK(c.seed <= INT64_MAX, ErrorCode::config, "run.seed is " + std::to_string(c.seed),
           "TOML has no number above 2^63 - 1", "use a smaller seed");
  return {{"seed", static_cast<std::int64_t>(c.seed)},
          {"steps", c.steps},
          {"micro_batches", c.micro_batches},
          {"stages", list_of(c.stages, number)},
          {"worlds", list_of(c.worlds, itself)},
          {"grids", list_of(c.grids, itself)},
          {"orders", list_of(c.orders, named)},
          {"layouts", list_of(c.layouts, named)},
          {"grad_sums", list_of(c.grad_sums, named)},
          {"windows", list_of(c.windows, named)},
          {"wires", list_of(c.transport, named)},
          {"instances", c.instances},
          {"persistent_numel", c.persistent_numel},
          {"overlap", c.overlap},
          {"dtypes", list_of(c.dtypes, named)},
          {"bucket_numels", list_of(c.bucket_numels, number)},
          {"omp_threads", list_of(c.omp_threads, number)},
          {"initial_state", c.initial_state == InitialState::zero ? "zero" : "seeded"},
          {"initial_step", c.initial_step},
          {"overflow_step", c.overflow_step},
          {"overflow_tensor", c.overflow_tensor},
          {"idle_tensors", c.idle_tensors},
          {"loss_reduction", named(c.loss_reduction)},
          {"on_nonfinite", named(c.on_nonfinite)},
          {"missing_grad", named(c.missing_grad)},
          {"param_rounding", named(c.param_rounding)},
          {"text", c.text},
          {"comm_timeout_s", c.comm_timeout_s}};
}

Json offload_table(const OffloadConfig& o) {
  return {{"fractions", list_of(o.fractions, itself)},
          {"orders", list_of(o.orders, named)},
          {"places", list_of(o.places, named)},
          {"chunk_numels", list_of(o.chunk_numels, number)},
          {"overlaps", list_of(o.overlaps, itself)},
          {"grads", list_of(o.grads, itself)},
          {"folder", o.folder}};
}

Json optimizer_table(const OptimizerHyper& o) {
  return {{"rule", named(o.rule)},
          {"lr", o.lr},
          {"beta1", static_cast<double>(o.beta1)},
          {"beta2", static_cast<double>(o.beta2)},
          {"eps", o.eps},
          {"weight_decay", o.weight_decay},
          {"bias_correction", o.bias_correction},
          {"amsgrad", o.amsgrad},
          {"maximize", o.maximize},
          {"momentum", o.momentum},
          {"dampening", o.dampening},
          {"nesterov", o.nesterov},
          {"norm", named(o.norm)},
          {"clip_value", o.clip_value.value_or(0)},
          {"max_norm", o.max_norm.value_or(0)}};
}

/// To the optimizer's other settings.
void add_state_formats(Json& optimizer, const StateFormats& formats) {
  optimizer["exp_avg_dtype"] = named(formats.exp_avg);
  optimizer["exp_avg_sq_dtype"] = named(formats.exp_avg_sq);
  optimizer["master_dtype"] = named(formats.master);
}

Json scaler_table(const LossScalerConfig& s) {
  const char* kind = s.kind == LossScalerKind::dynamic    ? "dynamic"
                     : s.kind == LossScalerKind::constant ? "constant"
                                                          : "none";
  return {{"kind", kind},
          {"initial_loss_scale", std::ldexp(1.0, s.log2_initial)},
          {"growth_factor", std::ldexp(1.0, s.log2_growth)},
          {"backoff_factor", std::ldexp(1.0, -s.log2_backoff)},
          {"min_loss_scale", std::ldexp(1.0, s.log2_min)},
          {"max_loss_scale", std::ldexp(1.0, s.log2_max)},
          {"growth_interval", s.growth_interval},
          {"hysteresis", s.hysteresis},
          {"hysteresis_refill", s.refill == HysteresisRefill::growth ? "growth" : "good_step"}};
}

Json scaling_table(const ParamScaling& s) {
  return {{"recipe", named(s.recipe)},
          {"value", named(s.value)},
          {"initial_master", named(s.initial_master)},
          {"columnwise", s.columnwise},
          {"epsilon", static_cast<double>(s.epsilon)},
          {"power_of_two", s.power_of_two},
          {"blocks", named(s.blocks)},
          {"margin", s.margin},
          {"history", s.history},
          {"choice", named(s.choice)},
          {"empty", named(s.empty)}};
}

Json schedule_table(const ScheduleConfig& s) {
  return {{"unit", named(s.unit)},
          {"first_is_zero", s.first_is_zero},
          {"warmup", s.warmup},
          {"warmup_init_lr", s.warmup_init_lr},
          {"warmup_shape", named(s.warmup_shape)},
          {"decay", named(s.decay)},
          {"decay_end", s.decay_end},
          {"min_lr", s.min_lr},
          {"wsd_decay", s.wsd_decay},
          {"wsd_shape", named(s.wsd_shape)},
          {"weight_decay_ramp", named(s.weight_decay_ramp)},
          {"weight_decay_begin", s.weight_decay_begin},
          {"weight_decay_end", s.weight_decay_end},
          {"rates", list_of(s.rates, itself)}};
}

Json group_table(const GroupRule& g) {
  Json table = {{"name", g.name},
                {"match", list_of(g.match, itself)},
                {"vectors", g.vectors},
                {"lr_mult", g.lr_mult},
                {"weight_decay_mult", g.weight_decay_mult}};
  if (g.lr) table["lr"] = *g.lr;
  if (g.min_lr) table["min_lr"] = *g.min_lr;
  return table;
}

Json clip_group_table(const ClipGroupRule& g) {
  Json table = {{"name", g.name}, {"match", list_of(g.match, itself)}, {"vectors", g.vectors}};
  if (g.max_norm) table["max_norm"] = *g.max_norm;
  return table;
}

Json muon_table(const RunConfig& c) {
  const MuonSettings& m = c.optimizer.muon;
  const NewtonSchulzOptions& n = m.newton_schulz;
  return {{"family", named(m.family)},
          {"coefficients", named(n.coefficients)},
          {"steps", n.steps},
          {"form", named(n.form)},
          {"factors", named(n.factors)},
          {"floor", named(n.floor)},
          {"eps", n.eps},
          {"rounds_first", n.rounds_first},
          {"scale", named(m.scale)},
          {"scale_factor", m.scale_factor},
          {"adamw", list_of(c.muon_adamw, itself)},
          {"owners", named(c.matrix_owners)},
          {"tensor_parallel", named(c.matrix_tensor_parallel)}};
}

Json matrix_split_table(const MatrixSplitRule& s) {
  return {{"name", s.name},
          {"match", list_of(s.match, itself)},
          {"rows", list_of(s.rows, itself)},
          {"columns", list_of(s.columns, itself)}};
}

void add_muon(Json& all, const RunConfig& config) {
  all["muon"] = muon_table(config);
  all["matrix_split"] = list_of(config.matrix_splits, matrix_split_table);
}

Json tables_of(const RunConfig& config) {
  const ModelConfig& m = config.model;
  return {{"run", run_table(config)},
          {"model", Json{{"layers", m.layers},
                         {"width", m.width},
                         {"heads", m.heads},
                         {"hidden", m.hidden},
                         {"context", m.context}}},
          {"optimizer", optimizer_table(config.optimizer)},
          {"loss_scaler", scaler_table(config.scaler)},
          {"schedule", schedule_table(config.schedule)},
          {"param_group", list_of(config.param_groups, group_table)},
          {"clip_group", list_of(config.clip_groups, clip_group_table)}};
}

}  // namespace

std::string to_toml(const RunConfig& config) {
  Json all = tables_of(config);
  all["offload"] = offload_table(config.offload);
  all["scaling"] = scaling_table(config.scaling);
  add_muon(all, config);
  add_state_formats(all["optimizer"], config.state_formats);
  return toml_text(all);
}

std::string to_toml_without_offload(const RunConfig& config) {
  Json all = tables_of(config);
  if (std::ranges::any_of(config.dtypes, [](DType dtype) { return has_scales(dtype); }))
    all["scaling"] = scaling_table(config.scaling);
  // Older checkpoints have no such keys: plain formats, and settings of a rule that is not used, are
  // not written, so that their text is unchanged.
  if (traits_of(config.optimizer.rule).matrices) add_muon(all, config);
  if (!config.state_formats.plain()) add_state_formats(all["optimizer"], config.state_formats);
  return toml_text(all);
}

}  // namespace zeroproof
