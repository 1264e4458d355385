#include "verification/cases/pairwise/space.hpp"

#include <algorithm>

#include "common/base/error.hpp"
#include "verification/cases/case_layout.hpp"
#include "verification/cases/obstacle.hpp"
#include "verification/cases/recipes.hpp"
#include "verification/cli/program/device_capabilities.hpp"

namespace zeroproof::verification {
namespace {

/// Options under which nothing but this run is planned.
VerifyOptions only(const VerifyOptions& options, const CaseSpec& spec) {
  VerifyOptions alone = options;
  alone.recipes = {spec.recipe};
  alone.implementations = {spec.implementation};
  alone.modes = {spec.mode};
  alone.overrides = [&options, &spec](RunConfig& config) {
    options.overrides(config);
    config.worlds = {spec.world.id()};
    config.bucket_numels = {spec.bucket_numel};
    config.omp_threads = {spec.omp_threads};
    take_place(config, spec);
    config.persistent_numel = spec.place.persistent_numel;
    config.overlap = spec.place.overlap;
  };
  return alone;
}

/// Ranks on devices that could not reach each other would be skipped, each when it runs.
std::string why_no_transport(const CaseSpec& spec) {
  if (spec.place.transport == Transport::nccl) return nccl_obstacle(spec.world.size);
  const bool apart = spec.implementation.space == Space::device && spec.world.has_processes();
  return apart ? "a copy reaches device memory of its own process alone" : "";
}

}  // namespace

std::string why_pointless(const RunConfig& config) {
  const bool dynamic =
      config.dtypes == std::vector{DType::fp16} && config.scaler.kind == LossScalerKind::dynamic;
  const bool too_high = dynamic && config.scaler.log2_initial >= 18;
  const bool overflows = config.overflow_step > 0 || too_high;
  // The gradients of the model hold a scale of 2^15, and sums over tokens one of 2^11.
  const LossScalerConfig& s = config.scaler;
  const auto growths = static_cast<int>((config.steps - 2) / s.growth_interval + 1);
  const int reached = std::min(s.log2_max, s.log2_initial + s.log2_growth * growths);
  const bool grows = dynamic && reached > s.log2_initial;
  const bool tokens = config.loss_reduction == LossReduction::tokens;
  if (config.on_nonfinite != OnNonfinite::skip && grows && reached > (tokens ? 11 : 15))
    return "a scale that grows overflows by itself";
  if ((too_high || (dynamic && tokens)) && s.growth_interval == 1 && s.log2_growth > 1)
    return "a scale that grows back at once overflows in most steps";
  const bool table = config.schedule.decay == DecayShape::table;
  if (table && config.initial_step >
                   static_cast<std::int64_t>(config.schedule.rates.size()) - config.steps) {
    return "a table of rates would have to reach back to the first step";
  }
  if (too_high && config.idle_tensors && config.optimizer.max_norm.value_or(0) == 0 &&
      !config.clip_groups.empty()) {
    return "the tensors of a clip group may have no gradient in the few steps that are applied";
  }
  const NewtonSchulzOptions& iteration = config.optimizer.muon.newton_schulz;
  // Of a gradient of low rank, which momentum adds to others.
  const bool grows_above_1 = iteration.steps > 8 || config.optimizer.momentum == 0;
  if (traits_of(config.optimizer.rule).matrices && grows_above_1 &&
      iteration.coefficients == NewtonSchulzSet::cans && iteration.factors == MatrixFactors::bf16) {
    return "a singular value that bf16 rounds above 1 leaves the interval of cans and grows";
  }
  switch (config.on_nonfinite) {
    case OnNonfinite::skip:
      return dynamic && !overflows
                 ? "a dynamic loss scaler that never meets an overflow proves little"
                 : "";
    case OnNonfinite::error:
      return overflows ? "the run is to end at its first overflow" : "";
    case OnNonfinite::propagate:
      return too_high || (overflows && config.overflow_step < config.steps)
                 ? "everything is NaN after an overflow that propagates"
                 : "";
  }
  return "";
}

std::vector<int> values_of(const CoveredRun& run) {
  std::vector<int> values;
  for (const Axis& axis : axes()) values.push_back(axis.value_of(run));
  return values;
}

RunSpace::RunSpace(VerifyOptions options, std::string workload)
    : options_(std::move(options)),
      workload_(std::move(workload)),
      defaults_(config_of(options_, workload_)),
      text_(load_text(defaults_)) {}

Wanted RunSpace::defaults() const {
  CaseSpec spec;
  spec.workload = workload_;
  spec.recipe = configured_recipe(defaults_);
  spec.bucket_numel = defaults_.bucket_numels.front();
  if (!options_.implementations.empty()) spec.implementation = options_.implementations.front();
  if (!spec.implementation.runs_in(spec.mode)) spec.mode = Mode::whole;
  CoveredRun run{defaults_, spec};
  run.config.dtypes = {spec.dtype};
  Wanted wanted = values_of(run);
  for (int& value : wanted) value = std::max(value, 0);
  return wanted;
}

CoveredRun RunSpace::made(const Wanted& wanted) const {
  CoveredRun run{defaults_, {}};
  run.spec.workload = workload_;
  const std::vector<Axis>& all = axes();
  std::size_t i = 0;
  // An order of micro-batches applies only to several of them; axes of the configuration are
  // decided after those of the id.
  for (; i < all.size() && all[i].of_id; ++i) all[i].values[wanted[i]].set(run);
  run.config = under_recipe(std::move(run.config), run.spec.recipe);
  run.config.dtypes = {run.spec.dtype};
  for (; i < all.size(); ++i) {
    if (all[i].applies(run)) all[i].values[wanted[i]].set(run);
  }
  // A part of the id that the run does not use counts as not requested.
  const ParallelConfig plain;
  ParallelConfig& place = run.spec.place;
  for (const Axis& axis : all) {
    if (!axis.of_id || axis.applies(run)) continue;
    if (axis.name == "order") place.order = plain.order;
    if (axis.name == "layout") place.layout = plain.layout;
    if (axis.name == "windows") place.windows = plain.windows;
    if (axis.name == "transport") place.transport = plain.transport;
    if (axis.name == "persistent") place.persistent_numel = plain.persistent_numel;
  }
  if (!place.offload.on()) place.offload = plain.offload;
  if (run.spec.world.size == 1) {
    place.grid.reset();
    place.instances = 1;
  }
  return run;
}

std::string RunSpace::why_no_layout(const CoveredRun& run) const {
  const ProcessGrid grid = run.spec.place.grid_of(run.spec.world.size);
  if (grid.tp == 1) return "";
  const ModelConfig& m = run.config.model;
  const std::vector<std::int64_t> key = {m.layers,
                                         m.width,
                                         m.heads,
                                         m.hidden,
                                         grid.tp,
                                         grid.data_ranks() / run.spec.place.instances,
                                         run.spec.bucket_numel,
                                         static_cast<std::int64_t>(run.spec.place.layout)};
  const auto [said, fresh] = layouts_.try_emplace(key);
  if (fresh) {
    try {
      const Experiment experiment(workload_, run.config, run.spec.dtype, text_, run.spec.recipe);
      const CaseLayout layout(experiment, run.spec, run.spec.world.size);
    } catch (const Error& error) {
      said->second = error.what();
    }
  }
  return said->second;
}

std::string RunSpace::why_not(const CoveredRun& run) const {
  if (!options_.wants(run.spec.implementation)) return "another implementation was requested";
  if (std::string why = why_pointless(run.config); !why.empty()) return why;
  try {
    const std::string id = run.spec.id();
    if (!parse_case_id(id)) return "there is no such case";
    if (std::string why = obstacle(run.spec, false); !why.empty()) return why;
    if (std::string why = why_no_transport(run.spec); !why.empty()) return why;
    config_of(options_, run.spec);  // settings behind the recipe that this candidate has not
    const std::vector<CaseSpec> cases = cases_of(only(options_, run.spec), workload_);
    const bool planned =
        std::ranges::any_of(cases, [&](const CaseSpec& spec) { return spec.id() == id; });
    if (!planned) return "the plan of a run does not contain this case";
    return why_no_layout(run);
  } catch (const Error& error) {
    return error.what();
  }
}

std::optional<CoveredRow> RunSpace::run_with(
    const Wanted& wanted, const std::vector<std::pair<std::size_t, int>>& needed) const {
  const CoveredRun run = made(wanted);
  for (const auto& [axis, value] : needed) {
    if (axes()[axis].value_of(run) == value) continue;
    refusal_ = "a required value would have no effect";
    return std::nullopt;
  }
  refusal_ = why_not(run);
  if (!refusal_.empty()) return std::nullopt;
  return CoveredRow{wanted, values_of(run), run.spec};
}

}  // namespace zeroproof::verification
