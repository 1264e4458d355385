#include "common/step/setup_agreement.hpp"

#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "common/comm/agreement.hpp"

namespace zeroproof {
namespace {

// Structured bindings name every member: a setting added to one of these structs does not compile
// until it is added here.

/// Digest of values of any type of a setting.
class ValueHasher {
 public:
  template <class... T>
  ValueHasher& add(const T&... values) {
    (feed(values), ...);
    return *this;
  }
  Digest digest() const { return hasher_.digest(); }

 private:
  template <class T>
  void feed(const T& value) {
    if constexpr (std::floating_point<T>) {
      hasher_.add(static_cast<double>(value));
    } else {
      static_assert(std::integral<T> || std::is_enum_v<T>);
      hasher_.add(static_cast<std::uint64_t>(value));
    }
  }
  void feed(const std::string& text) { hasher_.add(std::string_view(text)); }
  template <class T>
  void feed(const std::optional<T>& value) {
    add(value.has_value(), value.value_or(T{}));
  }

  template <class T>
  void feed(const std::vector<T>& values) {
    add(values.size());
    for (const T& value : values) add(value);
  }

  void feed(const FlatRange& range) { add(range.begin, range.end); }
  void feed(const TensorSlot& slot) { add(slot.name, slot.shape); }
  void feed(const TensorPlacement& place) {
    const auto& [tp_replicated, begin, row_numel, row_stride] = place;
    add(tp_replicated, begin, row_numel, row_stride);
  }
  void feed(const TensorMatrix& matrix) {
    const auto& [begin, rows, columns] = matrix;
    add(begin, rows, columns);
  }
  void feed(const ShardMap& shards) {
    add(shards.world_size(), shards.buckets());
    for (std::size_t bucket = 0; bucket < shards.buckets().size(); ++bucket) {
      for (int rank = 0; rank < shards.world_size(); ++rank) add(shards.owned(bucket, rank));
    }
  }
  void feed(const GroupRule& rule) {
    const auto& [name, match, vectors, lr_mult, weight_decay_mult, lr, min_lr] = rule;
    add(name, match, vectors, lr_mult, weight_decay_mult, lr, min_lr);
  }
  void feed(const ClipGroupRule& rule) {
    const auto& [name, match, vectors, max_norm] = rule;
    add(name, match, vectors, max_norm);
  }
  void feed(const MatrixTensor& tensor) {
    const auto& [is_matrix, by_columns, widths] = tensor;
    add(is_matrix, by_columns, widths);
  }
  void feed(const ScheduleConfig& schedule) {
    const auto& [unit, first_is_zero, warmup, warmup_init_lr, warmup_shape, decay, decay_end,
                 min_lr, wsd_decay, wsd_shape, weight_decay_ramp, weight_decay_begin,
                 weight_decay_end, rates] = schedule;
    add(unit, first_is_zero, warmup, warmup_init_lr, warmup_shape, decay, decay_end, min_lr,
        wsd_decay, wsd_shape, weight_decay_ramp, weight_decay_begin, weight_decay_end, rates);
  }

  Hasher hasher_;
};

/// The compared values, in the order of the structs.
class SettingList {
 public:
  template <class T>
  void add(const std::string& name, const T& value) {
    values_.push_back({"the values of " + name, ValueHasher().add(value).digest()});
  }
  /// of_tp_rank: differs between TP ranks.
  template <class T>
  void add_called(const std::string& what, const T& value, bool of_tp_rank) {
    values_.push_back({what, ValueHasher().add(value).digest(), of_tp_rank});
  }
  const std::vector<CommonValue>& values() const { return values_; }

 private:
  std::vector<CommonValue> values_;
};

void add_hyper(SettingList& list, const OptimizerHyper& hyper) {
  const auto& [rule, lr, beta1, beta2, eps, weight_decay, bias_correction, amsgrad, maximize,
               momentum, dampening, nesterov, muon, norm, max_norm, clip_value] = hyper;
  const auto& [family, newton_schulz, scale, scale_factor] = muon;
  const auto& [coefficients, ns_steps, form, factors, floor, ns_eps, rounds_first] = newton_schulz;
  list.add("hyper.rule", rule);
  list.add("hyper.lr", lr);
  list.add("hyper.beta1", beta1);
  list.add("hyper.beta2", beta2);
  list.add("hyper.eps", eps);
  list.add("hyper.weight_decay", weight_decay);
  list.add("hyper.bias_correction", bias_correction);
  list.add("hyper.amsgrad", amsgrad);
  list.add("hyper.maximize", maximize);
  list.add("hyper.momentum", momentum);
  list.add("hyper.dampening", dampening);
  list.add("hyper.nesterov", nesterov);
  list.add("hyper.muon.family", family);
  list.add("hyper.muon.coefficients", coefficients);
  list.add("hyper.muon.steps", ns_steps);
  list.add("hyper.muon.form", form);
  list.add("hyper.muon.factors", factors);
  list.add("hyper.muon.floor", floor);
  list.add("hyper.muon.eps", ns_eps);
  list.add("hyper.muon.rounds_first", rounds_first);
  list.add("hyper.muon.scale", scale);
  list.add("hyper.muon.scale_factor", scale_factor);
  list.add("hyper.norm", norm);
  list.add("hyper.max_norm", max_norm);
  list.add("hyper.clip_value", clip_value);
}

void add_scaler(SettingList& list, const LossScalerConfig& scaler) {
  const auto& [kind, log2_initial, log2_growth, log2_backoff, log2_min, log2_max, growth_interval,
               hysteresis, refill] = scaler;
  list.add("scaler.kind", kind);
  list.add("scaler.log2_initial", log2_initial);
  list.add("scaler.log2_growth", log2_growth);
  list.add("scaler.log2_backoff", log2_backoff);
  list.add("scaler.log2_min", log2_min);
  list.add("scaler.log2_max", log2_max);
  list.add("scaler.growth_interval", growth_interval);
  list.add("scaler.hysteresis", hysteresis);
  list.add("scaler.refill", refill);
}

void add_scaling(SettingList& list, const ParamScaling& scaling) {
  const auto& [recipe, value, initial_master, columnwise, epsilon, power_of_two, blocks, margin,
               history, choice, empty] = scaling;
  list.add("scaling.recipe", recipe);
  list.add("scaling.value", value);
  list.add("scaling.initial_master", initial_master);
  list.add("scaling.columnwise", columnwise);
  list.add("scaling.epsilon", epsilon);
  list.add("scaling.power_of_two", power_of_two);
  list.add("scaling.blocks", blocks);
  list.add("scaling.margin", margin);
  list.add("scaling.history", history);
  list.add("scaling.choice", choice);
  list.add("scaling.empty", empty);
}

void add_settings(SettingList& list, const StepSettings& settings) {
  const auto& [layout, groups, clip_groups, param_dtype, scaling, micro_batches, grad_sum, hyper,
               scaler, loss_reduction, on_nonfinite, missing_grad, param_rounding, seed,
               state_formats, matrix_tensors] = settings;
  list.add_called("the layouts", layout->tensors(), true);
  const auto& [rules, of_tensor, schedule] = groups;
  list.add("groups.rules", rules);
  list.add("groups.of_tensor", of_tensor);
  list.add("groups.schedule", schedule);
  const auto& [clip_rules, clip_group_of_tensor] = clip_groups;
  list.add("clip_groups.rules", clip_rules);
  list.add("clip_groups.of_tensor", clip_group_of_tensor);
  list.add("param_dtype", param_dtype);
  add_scaling(list, scaling);
  list.add("micro_batches", micro_batches);
  list.add("grad_sum", grad_sum);
  add_hyper(list, hyper);
  add_scaler(list, scaler);
  list.add("loss_reduction", loss_reduction);
  list.add("on_nonfinite", on_nonfinite);
  list.add("missing_grad", missing_grad);
  list.add("param_rounding", param_rounding);
  list.add("seed", seed);
  const auto& [exp_avg, exp_avg_sq, master] = state_formats;
  list.add("state_formats.exp_avg", exp_avg);
  list.add("state_formats.exp_avg_sq", exp_avg_sq);
  list.add("state_formats.master", master);
  list.add("matrix_tensors", matrix_tensors);
}

void add_distribution(SettingList& list, const OptimizerSetup& setup) {
  list.add_called("the shard maps", *setup.shards, true);
  list.add("cp", setup.cp);
  list.add_called("the placements", setup.placement, true);
  list.add("matrices", setup.matrices);
  list.add("stage", setup.stage);
  list.add("order", setup.order);
  list.add("persistent_numel", setup.persistent_numel);
  list.add("overlap", setup.overlap);  // it determines the order of the ranks' calls
  list.add("matrix_owners", setup.matrix_owners);
  list.add("matrix_tensor_parallel", setup.matrix_tensor_parallel);
  list.add("windows", setup.windows);
  list.add("grad_dtype", setup.grad_dtype);
}

/// Loaded scales as bits: a digest of values would not distinguish NaNs.
void add_scales(SettingList& list, const FullState& state, const StepSettings& settings) {
  std::vector<float> scales;  // unused otherwise
  std::vector<std::uint32_t> history;
  if (has_scales(settings.param_dtype)) {
    scales.assign(state.param_scale.begin(), state.param_scale.end());
    if (keeps_history(settings.scaling))
      history.assign(state.amax_history.begin(), state.amax_history.end());
  }
  list.add("state.param_scale", scales);
  list.add("state.amax_history", history);
}

void add_counters(SettingList& list, const FullState& state, MissingGrad missing_grad) {
  const auto& [log2_scale, growth_tracker, hysteresis_left] = state.scaler;
  list.add("state.applied_steps", state.applied_steps);
  list.add("state.scaler.log2_scale", log2_scale);
  list.add("state.scaler.growth_tracker", growth_tracker);
  list.add("state.scaler.hysteresis_left", hysteresis_left);
  std::vector<std::uint64_t> tensor_steps;  // unused otherwise
  if (missing_grad == MissingGrad::skip)
    tensor_steps.assign(state.tensor_steps.begin(), state.tensor_steps.end());
  list.add("state.tensor_steps", tensor_steps);
}

}  // namespace

void require_same_setup(const OptimizerSetup& setup, const FullState& state) {
  SettingList list;
  add_settings(list, setup);
  add_distribution(list, setup);
  add_counters(list, state, setup.missing_grad);
  add_scales(list, state, setup);
  // TP ranks are adjacent, instances outermost: in this order ranks have their numbers in the step.
  require_agreement({setup.tp, setup.comm, setup.replicas}, list.values(),
                    "ranks with different settings compute different steps, without any error",
                    "give every rank the same settings and state");
}

void require_same_setup(const LbfgsSetup& setup, const LbfgsState& state) {
  SettingList list;
  list.add_called("the layouts", setup.layout->tensors(), false);
  list.add_called("the shard maps", *setup.shards, false);
  const auto& [lr, max_iter, max_eval, tolerance_grad, tolerance_change, history_size, line_search,
               max_ls] = setup.hyper;
  list.add("hyper.lr", lr);
  list.add("hyper.max_iter", max_iter);
  list.add("hyper.max_eval", max_eval);
  list.add("hyper.tolerance_grad", tolerance_grad);
  list.add("hyper.tolerance_change", tolerance_change);
  list.add("hyper.history_size", history_size);
  list.add("hyper.line_search", line_search);
  list.add("hyper.max_ls", max_ls);
  list.add("state.rho", state.rho);
  list.add("state.h", state.h);
  list.add("state.pending", state.pending);
  list.add("state.started", state.started);
  list.add("state.iterations", state.iterations);
  list.add("state.evaluations", state.evaluations);
  require_agreement({setup.comm}, list.values(), "all ranks must follow the same control flow",
                    "give every rank the same settings and state");
}

}  // namespace zeroproof
