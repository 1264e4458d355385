#include "verification/interfaces/plugin/step_call.hpp"

#include <numeric>

#include "cuda/comm/exchange/micro_batches.hpp"
#include "verification/ops/operations/update_settings.hpp"

namespace zeroproof::verification {
namespace {

void describe_matrices(const OptimizerSetup& setup, StepTables& tables) {
  for (std::size_t tensor = 0; tensor < setup.matrix_tensors.size(); ++tensor) {
    const auto& [is_matrix, by_columns, widths] = setup.matrix_tensors[tensor];
    const std::vector<std::int64_t>& shape = setup.layout->tensors()[tensor].shape;
    if (!is_matrix || shape[0] == 0 || shape[1] == 0) continue;  // it has no part
    const std::vector<std::int64_t> parts = widths.empty() ? std::vector{shape[0]} : widths;
    const std::int64_t period = std::accumulate(parts.begin(), parts.end(), std::int64_t{0});
    std::int64_t first = 0;
    for (const std::int64_t width : parts) {
      for (const std::int64_t word : {static_cast<std::int64_t>(tensor), shape[0], shape[1],
                                      std::int64_t{by_columns ? 1 : 0}, period, first, width}) {
        tables.matrix_parts.push_back(static_cast<std::uint64_t>(word));
      }
      first += width;
    }
  }
  const NewtonSchulzOptions& iteration = setup.hyper.muon.newton_schulz;
  for (int k = 0; k < iteration.steps; ++k) {
    const QuinticPolynomial p = polynomial_of(iteration.coefficients, k);
    for (const double factor : {p.a, p.b, p.c})
      tables.polynomials.push_back(static_cast<float>(factor));
  }
}

}  // namespace

StepTables step_tables(const OptimizerSetup& setup) {
  StepTables tables;
  const std::vector<TensorSlot>& slots = setup.layout->tensors();
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const auto tensor = static_cast<std::int64_t>(i);
    for (const std::int64_t word :
         {slots[i].begin, slots[i].numel, std::int64_t{setup.groups.of(tensor)},
          std::int64_t{setup.clip_groups.of(tensor)}}) {
      tables.tensors.push_back(static_cast<std::uint64_t>(word));
    }
  }
  tables.leaf_ranks.resize(setup.micro_batches);
  for (int rank = 0; rank < setup.comm->world_size(); ++rank) {
    for (const FlatRange& range : setup.shards->shard(rank)) {
      for (const std::int64_t word : {std::int64_t{rank}, range.begin, range.numel()}) {
        tables.shards.push_back(static_cast<std::uint64_t>(word));
      }
    }
    for (const std::int64_t j : cuda::micro_batches_of(setup, rank)) {
      tables.leaf_ranks[j] = static_cast<std::uint32_t>(rank);
    }
  }
  for (const auto& limit : max_norms_of(setup.clip_groups, setup.hyper.max_norm)) {
    tables.max_norms.push_back(limit.value_or(0));
  }
  if (traits_of(setup.hyper.rule).matrices) describe_matrices(setup, tables);
  return tables;
}

std::vector<double> group_rates(const OptimizerSetup& setup, std::int64_t t) {
  std::vector<double> rates;
  for (int group = 0; group < setup.groups.count(); ++group) {
    const OptimizerHyper hyper = hyper_of(setup.groups, setup.hyper, group, t, setup.micro_batches);
    rates.insert(rates.end(), {hyper.lr, hyper.weight_decay});
  }
  return rates;
}

std::vector<OpSetting> step_settings(const OptimizerSetup& setup, std::int64_t t,
                                     std::int64_t divisor, const StepScalars& scalars) {
  const auto number = [](auto value) { return static_cast<std::int64_t>(value); };
  const LossScalerConfig& scaler = setup.scaler;
  std::vector<OpSetting> settings =
      described({hyper_of(setup.groups, setup.hyper, 0, t, setup.micro_batches), t, scalars});
  const std::vector<OpSetting> of_step = {
      {"scalar.inv_scale", double{scalars.inv_scale}},
      {"rule", number(setup.hyper.rule)},
      {"norm_form", number(setup.hyper.norm)},
      {"clip_value", setup.hyper.clip_value.value_or(0)},
      {"micro_batches", setup.micro_batches},
      {"divisor", divisor},
      {"world_size", number(setup.comm->world_size())},
      {"stage", number(setup.stage)},
      {"grad_sum", number(setup.grad_sum)},
      {"on_nonfinite", number(setup.on_nonfinite)},
      {"missing_grad", number(setup.missing_grad)},
      {"param_rounding", number(setup.param_rounding)},
      {"seed", setup.seed},
      {"scaler.kind", number(scaler.kind)},
      {"scaler.log2_growth", number(scaler.log2_growth)},
      {"scaler.log2_backoff", number(scaler.log2_backoff)},
      {"scaler.log2_min", number(scaler.log2_min)},
      {"scaler.log2_max", number(scaler.log2_max)},
      {"scaler.growth_interval", number(scaler.growth_interval)},
      {"scaler.hysteresis", number(scaler.hysteresis)},
      {"scaler.refill", number(scaler.refill)}};
  settings.insert(settings.end(), of_step.begin(), of_step.end());
  if (!traits_of(setup.hyper.rule).matrices) return settings;
  const MuonSettings& muon = setup.hyper.muon;
  settings.insert(settings.end(), {{"muon.heavy_ball", number(muon.family)},
                                   {"muon.scale", number(muon.scale)},
                                   {"muon.scale_factor", muon.scale_factor}});
  for (const auto& [name, value] : described(muon.newton_schulz))
    settings.push_back({"muon." + name, value});
  return settings;
}

}  // namespace zeroproof::verification
