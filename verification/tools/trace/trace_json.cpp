// zeroproof-trace/1: all values of a trace.

#include <algorithm>

#include "common/io/json.hpp"
#include "verification/cli/program/contract_version.hpp"
#include "verification/tools/trace/event_order.hpp"
#include "verification/tools/trace/json_sections.hpp"
#include "verification/tools/trace/matrix_way.hpp"
#include "verification/tools/trace/phase_facts.hpp"
#include "verification/tools/trace/scaled_way.hpp"
#include "verification/tools/trace/sections.hpp"
#include "verification/tools/trace/trace_values.hpp"

namespace zeroproof::verification {
namespace {

Json range_json(const FlatRange& range) {
  Json pair = Json::array();
  pair.push_back(range.begin);
  pair.push_back(range.end);
  return pair;
}

Json settings_json(const StepTrace& trace) {
  const TraceSettings& s = trace.settings;
  const OptimizerSetup setup = traced_setup(s, trace.model, trace.shards);
  const OptimizerHyper& hyper = setup.hyper;
  const LossScalerConfig& scaler = setup.scaler;
  Json json = {{"stage", s.stage},
               {"world_size", s.world_size},
               {"micro_batches", s.micro_batches},
               {"steps", s.steps},
               {"rule", name(s.rule)},
               {"param_dtype", name(s.param_dtype)},
               {"grad_dtype", name(s.grad_dtype())},
               {"log2_loss_scale", s.log2_loss_scale},
               {"overflow_step", s.overflow_step},
               {"seed", s.seed},
               {"bucket_numel", trace.shards.buckets().front().numel()},
               {"clip_group", s.clip_group},
               {"fault", s.fault},
               {"lr", hyper.lr},
               {"beta1", static_cast<double>(hyper.beta1)},
               {"beta2", static_cast<double>(hyper.beta2)},
               {"eps", hyper.eps},
               {"weight_decay", hyper.weight_decay},
               {"momentum", hyper.momentum},
               {"dampening", hyper.dampening},
               {"max_norm", hyper.max_norm.value_or(0.0)},
               {"scaler",
                {{"kind", "dynamic"},
                 {"log2_growth", scaler.log2_growth},
                 {"log2_backoff", scaler.log2_backoff},
                 {"log2_min", scaler.log2_min},
                 {"log2_max", scaler.log2_max},
                 {"growth_interval", scaler.growth_interval},
                 {"hysteresis", scaler.hysteresis}}}};
  if (!setup.matrix_tensors.empty()) {
    json["nesterov"] = hyper.nesterov;
    json["matrix_owners"] = name(s.matrix_owners);
  }
  if (has_scales(s.param_dtype)) json["scale_recipe"] = name(s.scaling.recipe);
  return json;
}

int owner_of(const StepTrace& trace, std::int64_t element) {
  for (int rank = 0; rank < trace.settings.world_size; ++rank) {
    for (const FlatRange& range : trace.shards.shard(rank)) {
      if (element >= range.begin && element < range.end) return rank;
    }
  }
  return -1;
}

Json layout_json(const StepTrace& trace) {
  const TracedModel& model = trace.model;
  const FlatLayout& layout = model.layout();
  const ClipGroups groups = traced_setup(trace.settings, model, trace.shards).clip_groups;
  Json tensors = Json::array();
  for (std::size_t i = 0; i < layout.tensors().size(); ++i) {
    const TensorSlot& slot = layout.tensors()[i];
    tensors.push_back({{"name", slot.name},
                       {"shape", Json(slot.shape)},
                       {"begin", slot.begin},
                       {"numel", slot.numel},
                       {"unit", model.unit_of(slot)},
                       {"clip_group", groups.of(static_cast<std::int64_t>(i))}});
  }
  Json units = Json::array();
  for (std::size_t u = 0; u < model.units().size(); ++u) {
    const FlatRange& range = model.units()[u];
    units.push_back(
        {{"name", TracedModel::unit_name(u)}, {"begin", range.begin}, {"end", range.end}});
  }
  Json buckets = Json::array();
  for (const FlatRange& bucket : trace.shards.buckets()) {
    buckets.push_back({{"begin", bucket.begin}, {"end", bucket.end}});
  }
  Json parameters = Json::array();
  const std::vector<std::string> names = element_names(layout);
  const std::vector<std::int64_t> elements = elements_of(layout);
  for (std::size_t e = 0; e < elements.size(); ++e) {
    parameters.push_back({{"name", names[e]},
                          {"tensor", layout.tensor_at(elements[e])},
                          {"global", elements[e]},
                          {"owner", owner_of(trace, elements[e])}});
  }
  return {{"numel", layout.numel()}, {"padded_numel", layout.padded_numel()},
          {"tensors", tensors},      {"units", units},
          {"buckets", buckets},      {"parameters", parameters}};
}

/// Parameters that a rank owns.
Json owned_json(const StepTrace& trace, int rank) {
  const std::vector<std::int64_t> elements = elements_of(trace.model.layout());
  Json parameters = Json::array();
  for (std::size_t e = 0; e < elements.size(); ++e) {
    if (owner_of(trace, elements[e]) == rank) parameters.push_back(e);
  }
  return parameters;
}

/// Parameters in the buffers that a rank keeps between steps, by class of memory.
Json holds_json(const StepTrace& trace, int rank) {
  Json all = Json::object();
  for (const TracedBuffer& buffer : trace.shown()[rank].steps.front().held) {
    const std::optional<MemoryClass> kind = class_of(buffer.id);
    if (!kind || holds_words(buffer.id)) continue;
    Json parameters = Json::array();
    for (const ParameterBits& one : parameters_in(trace.model.layout(), buffer))
      parameters.push_back(one.parameter);
    all[name(*kind)] = parameters;
  }
  return all;
}

Json owners_json(const StepTrace& trace) {
  Json all = Json::array();
  for (int rank = 0; rank < trace.settings.world_size; ++rank) {
    Json ranges = Json::array();
    for (const FlatRange& range : trace.shards.shard(rank)) ranges.push_back(range_json(range));
    all.push_back({{"rank", rank},
                   {"ranges", ranges},
                   {"parameters", owned_json(trace, rank)},
                   {"holds", holds_json(trace, rank)},
                   {"micro_batches", Json(micro_batches_of(trace.shape(rank), rank))}});
  }
  return all;
}

Json leaves_json(const StepTrace& trace, std::size_t step) {
  const std::vector<std::vector<float>> values = trace.leaves(step);
  const std::vector<int> ranks = computing_ranks(trace);
  Json all = Json::array();
  for (std::size_t j = 0; j < values.size(); ++j) {
    Json leaf = elements_json(trace.model.layout(), values[j], trace.settings.grad_dtype());
    leaf["micro_batch"] = j;
    leaf["rank"] = ranks[j];
    all.push_back(leaf);
  }
  return all;
}

Json pair_json(std::int64_t level, std::int64_t index) {
  Json pair = Json::array();
  pair.push_back(level);
  pair.push_back(index);
  return pair;
}

Json nodes_json(const StepTrace& trace, std::size_t step) {
  Json all = Json::array();
  for (const TracedNode& node : traced_nodes(trace, step)) {
    Json one = elements_json(trace.model.layout(), node.values, DType::fp32);
    one["level"] = node.level;
    one["index"] = node.index;
    one["left"] = pair_json(node.level - 1, 2 * node.index);
    one["right"] = pair_json(node.level - 1, 2 * node.index + 1);
    one["begin"] = node.index << node.level;
    one["end"] =
        std::min<std::int64_t>((node.index + 1) << node.level, trace.settings.micro_batches);
    const int whole = adding_rank(trace, node);
    Json added = Json::array();
    for (int rank = 0; rank < trace.settings.world_size; ++rank) {
      if (whole >= 0 && rank != whole) continue;
      const Json parameters = rank == whole ? one.at("parameters") : owned_json(trace, rank);
      if (parameters.begin() != parameters.end())
        added.push_back({{"rank", rank}, {"parameters", parameters}});
    }
    one["added"] = added;
    all.push_back(one);
  }
  return all;
}

/// Content of buffers on one rank, phase by phase.
class RankValues {
 public:
  RankValues(const StepTrace& trace, const TracedStep& step) : trace_(trace), step_(step) {
    for (const TracedBuffer& buffer : step.before) put(buffer);
  }

  Json before(Phase phase) const {
    Json all = Json::object();
    for (const TracedBuffer* const buffer : now_) {
      const bool needless = phase == Phase::reduce && trace_.settings.stage != 3;
      if (is_input(phase, buffer->id) && !needless) {
        all[name(buffer->id)] = buffer_json(trace_.model.layout(), *buffer);
      }
    }
    return all;
  }

  Json after(Phase phase) {
    Json all = Json::object();
    for (const TracedBuffer& buffer : step_.buffers) {
      if (buffer.phase != phase) continue;
      put(buffer);
      all[name(buffer.id)] = buffer_json(trace_.model.layout(), buffer);
    }
    return all;
  }

 private:
  void put(const TracedBuffer& buffer) {
    for (const TracedBuffer*& known : now_) {
      if (known->id == buffer.id) {
        known = &buffer;
        return;
      }
    }
    now_.push_back(&buffer);
  }

  const StepTrace& trace_;
  const TracedStep& step_;
  std::vector<const TracedBuffer*> now_;
};

Json phases_json(const StepTrace& trace, std::size_t step) {
  std::vector<RankValues> values;
  for (const TracedRank& rank : trace.shown()) values.emplace_back(trace, rank.steps[step]);
  const bool skipped = trace.shown().front().steps[step].skipped;
  Json all = Json::array();
  for (const Phase phase : all_phases) {
    const bool entered = !(skipped && skipped_on_overflow(phase));
    const bool reduce = phase == Phase::reduce;
    Json ranks = Json::array();
    for (std::size_t r = 0; entered && r < values.size(); ++r) {
      const Json before = values[r].before(phase);
      ranks.push_back({{"rank", r}, {"before", before}, {"after", values[r].after(phase)}});
    }
    all.push_back(
        {{"phase", name(phase)},
         {"entered", entered},
         {"rules", Json(rules_of(phase, trace.settings.rule, trace.settings.param_dtype))},
         {"formulas", Json(formulas_of(phase, trace.settings.rule, trace.settings.param_dtype))},
         {"ranks", ranks},
         {"nodes", reduce ? nodes_json(trace, step) : Json::array()},
         {"reductions", entered ? reductions_json(trace, step, phase) : Json::array()},
         {"chunks", entered && phase == Phase::norm ? chunks_json(trace, step) : Json::array()},
         {"ways", entered ? ways_json(trace, step, phase) : Json::array()},
         {"matrices", entered ? matrices_json(trace, step, phase) : Json::array()},
         {"messages", messages_json(trace, step, phase)},
         {"visits", reduce ? visits_json(trace, step) : Json::array()},
         {"events", events_json(trace, step, phase)},
         {"memory", memory_json(trace, step, phase)}});
  }
  return all;
}

}  // namespace

std::string trace_json(const StepTrace& trace) {
  Json steps = Json::array();
  for (std::size_t step = 0; step < static_cast<std::size_t>(trace.settings.steps); ++step) {
    const TracedStep& first = trace.shown().front().steps[step];
    steps.push_back({{"step", step + 1},
                     {"t", first.t},
                     {"skipped", first.skipped},
                     {"log2_loss_scale", first.log2_loss_scale},
                     {"leaves", leaves_json(trace, step)},
                     {"phases", phases_json(trace, step)}});
  }
  const Json file = {{"schema", "zeroproof-trace/1"},
                     {"program", std::string("zeroproof ") + ZP_VERSION},
                     {"numeric_contract", contract_version},
                     {"values_of", trace.settings.fault.empty() ? "reference" : "production"},
                     {"settings", settings_json(trace)},
                     {"layout", layout_json(trace)},
                     {"owners", owners_json(trace)},
                     {"differences", differences_json(trace)},
                     {"steps", steps}};
  return file.dump(1) + "\n";
}

}  // namespace zeroproof::verification
