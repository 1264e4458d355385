#include "verification/plan/plan.hpp"

#include <algorithm>
#include <charconv>
#include <compare>
#include <map>
#include <tuple>

#include "common/base/error.hpp"

namespace zeroproof::verification {
namespace {

constexpr std::int64_t all_ranks_computed = 64;  // above, ranks with equal shards and nodes are computed once

/// What bytes of a rank depend on besides the run: ranks that agree here have the same figures.
struct RankKind {
  std::int64_t full_bucket = 0, last_bucket = 0;  ///< elements of this rank
  std::vector<std::int64_t> stack;                ///< what its leaves do to its own stack
  std::vector<std::int64_t> instance;             ///< and those of its instance to the stacks of owners
  auto operator<=>(const RankKind&) const = default;
};

PredictedStep shape_of(const PlanSettings& settings, const FlatLayout& layout, int stage,
                       std::int64_t data_rank) {
  PredictedStep shape;
  const int data_ranks = settings.grid.data_ranks();
  shape.stage = stage;
  shape.instances = settings.instances;
  shape.world_size = data_ranks / settings.instances;
  shape.rank = static_cast<int>(data_rank % shape.world_size);
  shape.instance = static_cast<int>(data_rank / shape.world_size);
  shape.tp_size = settings.grid.tp;
  shape.cp = settings.grid.cp;
  shape.order = settings.order;
  shape.param_dtype = settings.param_dtype;
  shape.grad_dtype = settings.grad_dtype;
  shape.micro_batches = settings.micro_batches;
  shape.state_buffers = state_buffer_count(settings.hyper);
  shape.norm = settings.hyper.norm;
  shape.numel = layout.numel();
  shape.num_tensors = static_cast<std::int64_t>(layout.tensors().size());
  shape.padded_numel = layout.padded_numel();
  return shape;
}

/// Entries combined with every leaf of a rank that keeps its leaves; for the others it is enough how many
/// there are.
std::vector<std::int64_t> stack_of(const PredictedStep& shape, std::int64_t data_rank) {
  const std::vector<std::int64_t> leaves = leaves_of(shape, data_rank);
  if (!shape.keeps_leaves()) return {static_cast<std::int64_t>(leaves.size())};
  NodeCount stack;
  std::vector<std::int64_t> combined;
  for (const std::int64_t leaf : leaves) combined.push_back(stack.push(leaf));
  return combined;
}

/// The same for all ranks of an instance: what is left on stacks, and what arrives in every micro-step.
std::vector<std::int64_t> instance_of(const PredictedStep& shape) {
  if (shape.instances == 1) return {};
  std::vector<std::vector<std::int64_t>> leaves;
  std::size_t most = 0;
  for (int rank = 0; rank < shape.world_size; ++rank) {
    leaves.push_back(leaves_of(shape, std::int64_t{shape.instance} * shape.world_size + rank));
    most = std::max(most, leaves.back().size());
  }
  std::vector<std::int64_t> all = {instance_nodes(shape, shape.instance)};
  std::vector<NodeCount> stacks(leaves.size());
  for (std::size_t i = 0; i < most; ++i) {
    for (std::size_t rank = 0; rank < leaves.size(); ++rank) {
      if (i >= leaves[rank].size()) continue;
      const std::size_t holder = shape.keeps_leaves() ? rank : rank / static_cast<std::size_t>(shape.cp);
      NodeCount& stack = stacks[!shape.keeps_leaves() && shape.strided() ? 0 : holder];
      all.push_back(static_cast<std::int64_t>(i));
      all.push_back(stack.push(leaves[rank][i]));
    }
  }
  return all;
}

/// One data rank of every kind, or all of them if there are few.
std::vector<std::int64_t> ranks_to_compute(const PlanSettings& settings, const FlatLayout& layout,
                                           int stage) {
  std::vector<std::int64_t> ranks;
  std::map<RankKind, std::int64_t> first;
  std::vector<std::int64_t> instance;
  for (std::int64_t rank = 0; rank < settings.grid.data_ranks(); ++rank) {
    const PredictedStep shape = shape_of(settings, layout, stage, rank);
    if (shape.rank == 0) instance = instance_of(shape);
    const std::int64_t rest = shape.padded_numel % settings.bucket_numel;
    const std::int64_t full = std::min(settings.bucket_numel, shape.padded_numel);
    const RankKind kind{contract_slice({0, full}, shape.world_size, shape.rank).numel(),
                        contract_slice({0, rest}, shape.world_size, shape.rank).numel(),
                        stack_of(shape, rank), instance};
    const bool all = settings.grid.data_ranks() <= all_ranks_computed;
    if (all || first.emplace(kind, rank).second) ranks.push_back(rank);
  }
  return ranks;
}

PaperBytes papers_of(int stage, std::int64_t numel, std::int64_t ranks) {
  const auto psi = static_cast<double>(numel);
  const auto n = static_cast<double>(ranks);
  return {2 * psi / (stage == 3 ? n : 1), 2 * psi / (stage >= 2 ? n : 1), 4 * psi / (stage >= 1 ? n : 1),
          8 * psi / (stage >= 1 ? n : 1)};
}

/// Messages of a line as the model counts them. Units are gathered whole, however long they are, and buckets one by
/// one: so that stages can be compared, what is longer than a rank's part of a bucket counts as so many parts.
double modelled_messages(const TrafficLine& line, const PredictedStep& shape, std::int64_t bucket_numel) {
  const auto messages = static_cast<double>(line.messages);
  if (line.what != "units") return messages;
  const double part = static_cast<double>(num_bytes(shape.param_dtype) * bucket_numel) / shape.world_size;
  return std::max(messages, static_cast<double>(line.sent_bytes) / part);
}

/// messages * alpha + bytes / beta, and bytes / memory bandwidth: a model, not a measurement.
StepTime time_of(const StepTraffic& traffic, const PredictedStep& shape, const PlanSettings& settings) {
  const MachineModel& machine = settings.machine;
  StepTime time;
  for (const TrafficLine& line : traffic.lines) {
    const double latency = modelled_messages(line, shape, settings.bucket_numel) * machine.alpha_us;
    const double us = latency + static_cast<double>(line.sent_bytes) / (machine.beta_gbs * 1e3);
    time.latency_us += latency;
    double& part = line.phase == Phase::reduce   ? time.reduce_us
                   : line.phase == Phase::norm   ? time.norm_us
                   : line.phase == Phase::gather ? time.gather_us
                                                 : time.other_us;
    part += us;
  }
  time.norm_us += static_cast<double>(4 * shape.kept_numel()) / (machine.memory_gbs * 1e3);
  time.update_us = static_cast<double>(update_bytes(shape)) / (machine.memory_gbs * 1e3);
  return time;
}

/// The shapes of the ranks to compute, with units: in every stage leaves come from a model that runs layer by
/// layer.
std::vector<PredictedStep> shapes_of(const PlanSettings& settings, const FlatLayout& layout,
                                     const PlannedModel& model, const std::vector<FlatRange>& units,
                                     int stage) {
  std::vector<PredictedStep> shapes;
  for (const std::int64_t rank : ranks_to_compute(settings, layout, stage)) {
    shapes.push_back(shape_of(settings, layout, stage, rank));
    set_contract_buckets(shapes.back(), layout.padded_numel(), settings.bucket_numel);
    for (std::size_t t = 0; settings.grid.tp > 1 && t < model.tensors.size(); ++t) {
      if (model.tensors[t].tp_cut >= 0) continue;
      const TensorSlot& slot = layout.tensors()[t];
      add_tp_replicated(shapes.back(), {slot.begin, slot.begin + slot.numel});
    }
  }
  std::vector<int> visits;
  for (std::size_t unit = 0; unit < units.size(); ++unit) visits.push_back(static_cast<int>(unit));
  std::vector<PredictedStep*> all;
  for (PredictedStep& shape : shapes) all.push_back(&shape);
  const ContractOwnership ownership(settings.grid.data_ranks() / settings.instances, layout.padded_numel(),
                                    settings.bucket_numel);
  set_units(all, layout, ownership, units, visits, 0);
  return shapes;
}

StagePlan plan_stage(const PlanSettings& settings, const FlatLayout& layout, const PlannedModel& model,
                     const std::vector<FlatRange>& units, int stage) {
  StagePlan plan;
  plan.stage = stage;
  for (const PredictedStep& shape : shapes_of(settings, layout, model, units, stage)) {
    const std::int64_t rank = std::int64_t{shape.instance} * shape.world_size + shape.rank;
    RankPlan one{rank, shape.shard_numel, {}, {}, predict_traffic(shape)};
    one.memory = predict_memory(shape, &one.at_peak);
    const bool first = plan.ranks_computed++ == 0;
    for (std::size_t c = 0; c < one.memory.peak.size(); ++c) {
      plan.most[c] = std::max(plan.most[c], one.memory.peak[c]);
      plan.least[c] = first ? one.memory.peak[c] : std::min(plan.least[c], one.memory.peak[c]);
    }
    if (first || one.memory.total_peak < plan.smallest.memory.total_peak) plan.smallest = one;
    if (!first && one.memory.total_peak <= plan.largest.memory.total_peak) continue;
    plan.time = time_of(one.traffic, shape, settings);
    plan.largest = std::move(one);
  }
  plan.papers = papers_of(stage, layout.numel(), settings.grid.data_ranks() / settings.instances);
  return plan;
}

std::vector<int> grid_numbers(const std::string& text) {
  std::vector<int> numbers;
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  while (numbers.size() < 3) {
    int value = 0;
    const auto [rest, error] = std::from_chars(at, end, value);
    if (error != std::errc{} || value < 1) return {};
    numbers.push_back(value);
    if (rest == end) return numbers.size() == 3 ? numbers : std::vector<int>{};
    if (*rest != 'x') return {};
    at = rest + 1;
  }
  return {};
}

bool power_up_to_8(int value) { return value == 1 || value == 2 || value == 4 || value == 8; }

}  // namespace

ProcessGrid planned_grid(const std::string& text, std::int64_t world) {
  const std::vector<int> sizes = grid_numbers(text);
  ZP_CHECK(sizes.size() == 3, ErrorCode::config, "grid '" + text + "' is not three numbers above 0",
           "ranks are data x context x tensor parallel", "write it as in --grid 8x1x4");
  const auto [dp, cp, tp] = std::tie(sizes[0], sizes[1], sizes[2]);
  ZP_CHECK(power_up_to_8(cp) && power_up_to_8(tp) && cp * tp <= 8, ErrorCode::config,
           "grid " + text + " has cp " + std::to_string(cp) + " and tp " + std::to_string(tp),
           "sums inside the model are cut into 8 blocks (R18)",
           "use 1, 2, 4 or 8 for both, and at most 8 for their product");
  const std::int64_t ranks = std::int64_t{dp} * cp * tp;
  ZP_CHECK(ranks <= most_planned_ranks, ErrorCode::config,
           "grid " + text + " has " + std::to_string(ranks) + " ranks",
           "plans end at " + std::to_string(most_planned_ranks), "use a smaller one");
  const std::int64_t nearest_dp = std::max<std::int64_t>(1, (world + cp * tp / 2) / (cp * tp));
  ZP_CHECK(
      world == 0 || ranks == world, ErrorCode::config,
      "grid " + text + " has " + std::to_string(ranks) + " ranks and the world " + std::to_string(world),
      "every rank has one place",
      nearest_dp * cp * tp == world
          ? "use " + std::to_string(nearest_dp) + "x" + std::to_string(cp) + "x" + std::to_string(tp)
          : "use " + std::to_string(world) + "x1x1, or a world that " + std::to_string(cp * tp) + " divides");
  return {dp, cp, tp};
}

std::int64_t update_bytes(const PredictedStep& shape) {
  const std::int64_t per_element = 4 + 8 * (1 + shape.state_buffers) + num_bytes(shape.param_dtype);
  return per_element * shape.kept_numel();
}

Plan make_plan(const PlannedModel& model, const PlanSettings& settings) {
  Plan plan;
  plan.settings = settings;
  if (plan.settings.micro_batches == 0) plan.settings.micro_batches = settings.grid.dp;
  ZP_CHECK(settings.instances >= 1 && settings.grid.dp % settings.instances == 0, ErrorCode::config,
           std::to_string(settings.instances) + " instances cannot share " +
               std::to_string(settings.grid.dp) + " data parallel ranks",
           "every instance has the same number", "use a number that divides them");
  const FlatLayout layout(tp_shapes(model, settings.grid.tp));
  const std::vector<FlatRange> units = named_units(layout);
  plan.model = model.source;
  plan.numel = model.numel();
  plan.tp_numel = layout.numel();
  plan.padded_numel = layout.padded_numel();
  plan.num_tensors = static_cast<std::int64_t>(layout.tensors().size());
  plan.num_units = static_cast<std::int64_t>(units.size());
  plan.says_cuts = model.says_cuts;
  for (const FlatRange& unit : units) plan.largest_unit = std::max(plan.largest_unit, unit.numel());
  for (const int stage : settings.stages)
    plan.stages.push_back(plan_stage(plan.settings, layout, model, units, stage));
  return plan;
}

}  // namespace zeroproof::verification
