#include "verification/tools/plan/plan.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <tuple>

#include "common/base/error.hpp"
#include "verification/tools/plan/planned_matrices.hpp"
#include "verification/tools/plan/planned_run.hpp"
#include "verification/tools/plan/planned_state.hpp"
#include "verification/tools/plan/predict/contract_units.hpp"
#include "verification/tools/plan/rank_kinds.hpp"

namespace zeroproof::verification {
namespace {

constexpr std::int64_t all_ranks_counted = 64;    // above, kinds of ranks are
constexpr std::int64_t most_matrix_ranks = 1024;  // their pairs are counted

PaperBytes papers_of(int stage, std::int64_t numel, std::int64_t ranks) {
  const auto psi = static_cast<double>(numel);
  const auto n = static_cast<double>(ranks);
  return {2 * psi / (stage == 3 ? n : 1), 2 * psi / (stage >= 2 ? n : 1),
          4 * psi / (stage >= 1 ? n : 1), 8 * psi / (stage >= 1 ? n : 1)};
}

/// Messages of a line as the model counts them. A unit is gathered as a whole, whatever its length,
/// but buckets one by one: to make stages comparable, a message longer than a rank's part of a
/// bucket counts as several.
double modelled_messages(const TrafficLine& line, const PredictedStep& shape,
                         std::int64_t bucket_numel) {
  const auto messages = static_cast<double>(line.messages);
  if (line.what != "units") return messages;
  const double part =
      static_cast<double>(num_bytes(shape.param_dtype) * bucket_numel) / shape.world_size;
  return std::max(messages, static_cast<double>(line.sent_bytes) / part);
}

/// Bytes that ranks read in place instead: the same number that messages would carry. The update
/// writes directly into one copy of the parameters.
void add_reads_in_place(StepTime& time, const StepTraffic& traffic, const PredictedStep& shape,
                        const MachineModel& machine) {
  if (!shape.reads_in_place()) return;
  PredictedStep by_messages = shape;
  by_messages.windows = Windows::off;
  for (const TrafficLine& line : predict_traffic(by_messages).lines) {
    const bool travels =
        std::any_of(traffic.lines.begin(), traffic.lines.end(), [&](const TrafficLine& other) {
          return other.phase == line.phase && other.group == line.group && other.what == line.what;
        });
    if (travels || (shape.shares_params() && line.phase == Phase::gather)) continue;
    double& part = line.phase == Phase::gather ? time.gather_us : time.reduce_us;
    part += static_cast<double>(line.received_bytes) / (machine.memory_gbs * 1e3);
  }
}

/// messages * alpha + bytes / beta, and bytes / memory bandwidth: a model, not a measurement.
StepTime time_of(const StepTraffic& traffic, const PredictedStep& shape,
                 const PlanSettings& settings) {
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
  add_reads_in_place(time, traffic, shape, machine);
  time.norm_us += static_cast<double>(4 * shape.kept_numel()) / (machine.memory_gbs * 1e3);
  time.update_us = static_cast<double>(update_bytes(shape)) / (machine.memory_gbs * 1e3);
  return time;
}

StagePlan plan_stage(const PlanSettings& settings, const FlatLayout& layout,
                     const PlannedModel& model, const std::vector<FlatRange>& units, int stage) {
  StagePlan plan;
  plan.stage = stage;
  PredictedStep run = planned_run(settings, model, layout, units, stage);
  const PlannedState state(settings, model, layout);
  state.set_cut_blocks(run);
  LeafStacks stacks(run);
  const RankKinds kinds = kinds_of_ranks(run, settings.bucket_numel, stacks);
  std::vector<std::int64_t> ranks = kinds.first;
  const std::vector<MatrixUse> matrices = planned_matrices(settings, model, layout, stage);
  if (!matrices.empty()) plan.matrices = balance_of(settings, model, matrices, stage);
  const auto go_to = [&](std::int64_t rank) {
    move_to(run, rank);
    set_offload(run, layout, settings);
    state.set_blocks(run);
    if (!matrices.empty()) run.matrices = matrices[stage == 0 ? 0 : run.rank];
  };
  // Of one kind, but with padding, or matrices, in other places.
  if (settings.offload.on() || !matrices.empty()) {
    ranks.resize(settings.grid.data_ranks());
    std::iota(ranks.begin(), ranks.end(), std::int64_t{0});
  }
  for (const std::int64_t rank : ranks) {
    go_to(rank);
    RankPlan one{rank, run.shard_numel, {}, {}, {}, run.offload.moved, offload_traffic(run)};
    one.memory = predict_memory(run, &one.at_peak, &stacks);
    const bool first = rank == ranks.front();
    for (std::size_t c = 0; c < one.memory.peak.size(); ++c) {
      plan.most[c] = std::max(plan.most[c], one.memory.peak[c]);
      plan.least[c] = first ? one.memory.peak[c] : std::min(plan.least[c], one.memory.peak[c]);
    }
    if (first || one.memory.total_peak < plan.smallest.memory.total_peak) plan.smallest = one;
    if (first || one.memory.total_peak > plan.largest.memory.total_peak) plan.largest = one;
  }
  for (RankPlan* shown : {&plan.smallest, &plan.largest}) {
    go_to(shown->data_rank);
    set_contract_units(run, layout, units, settings.bucket_numel);
    shown->traffic = predict_traffic(run);
  }
  plan.time = time_of(plan.largest.traffic, run, settings);
  const std::int64_t data_ranks = settings.grid.data_ranks();
  plan.ranks_computed = data_ranks <= all_ranks_counted ? data_ranks : kinds.count;
  plan.papers = papers_of(stage, layout.numel(), data_ranks / settings.instances);
  return plan;
}

/// An upper bound for the figures of each rank: 32 bytes per element of state and parameters, a
/// node, a message and TP parts for each of its leaves, and messages of 8 bytes for its elements,
/// from every leaf and to every rank.
double largest_figure(const PlanSettings& settings, std::int64_t padded_numel) {
  const auto numel = static_cast<double>(padded_numel);
  const double ranks = settings.grid.data_ranks();
  const double leaves = static_cast<double>(settings.micro_batches) * settings.grid.cp;
  const std::int64_t chunks = std::min(settings.bucket_numel, padded_numel) / layout_alignment;
  const double world = ranks / settings.instances;
  const double slices = static_cast<double>(chunks) / world + 1;  // of a bucket, in chunks
  const double owned =
      std::min(1.0, slices / static_cast<double>(std::max<std::int64_t>(1, chunks))) * numel;
  return (32 + 32 * std::ceil(leaves / ranks)) * numel + 8 * (leaves + ranks) * owned;
}

/// Ranks with shards of one size have their padding in different places.
void check_offload(const PlanSettings& settings) {
  ZP_CHECK(!settings.offload.on() || settings.grid.data_ranks() <= all_ranks_counted,
           ErrorCode::config,
           "offload was planned for " + std::to_string(settings.grid.data_ranks()) +
               " data parallel ranks",
           "above " + std::to_string(all_ranks_counted) +
               " one rank of a kind is computed for all, and their offloaded parts differ",
           "plan for fewer ranks, or without --offload");
  const StateFormats& formats = settings.state_formats;
  const bool scales = has_scales(formats.exp_avg) || has_scales(formats.exp_avg_sq);
  ZP_CHECK(!settings.offload.on() || !scales || settings.grid.tp == 1, ErrorCode::config,
           "offload of state in fp16 or e4m3 was planned on " + std::to_string(settings.grid.tp) +
               " TP ranks",
           "they split blocks anywhere, and chunks have whole blocks",
           "use bf16, one TP rank, or leave out --offload");
  const bool shared = settings.windows != Windows::off &&
                      settings.grid.data_ranks() > settings.instances &&
                      std::ranges::find(settings.stages, 0) != settings.stages.end();
  ZP_CHECK(!settings.offload.moves_grads() || !shared, ErrorCode::config,
           "offloaded gradients were planned for stage 0 with windows",
           "ranks read each other's gradient sums in place",
           "add --stage 1,2,3, or use --windows off");
}

/// Production refuses offload and other formats too.
void check_matrices(const PlanSettings& settings) {
  const bool muon = traits_of(settings.hyper.rule).matrices;
  const auto refuse = [&](bool wrong, const std::string& what, const std::string& why,
                          const std::string& hint) {
    ZP_CHECK(!wrong, ErrorCode::config, what, why, hint);
  };
  const std::string rule =
      " was planned with the rule " + std::string(traits_of(settings.hyper.rule).name);
  refuse(!muon && settings.matrix_owners != MatrixOwners::every, "an owner of matrices" + rule,
         "only the rule muon has them", "leave --matrix-owners out, or use --rule muon");
  const bool distributed = settings.matrix_tensor_parallel == MatrixTensorParallel::distributed;
  refuse(!muon && distributed, "a distribution of matrices" + rule, "only the rule muon has it",
         "leave --matrix-tensor-parallel out, or use --rule muon");
  refuse(distributed && settings.grid.tp == 1, "distributed matrices were planned with one TP rank",
         "no other rank has a part of them",
         "use a --grid with 2 or more of them, or leave --matrix-tensor-parallel out");
  refuse(!muon && !settings.adamw.empty(), "a list of adamw's matrices" + rule,
         "only the rule muon has others", "leave --adamw out, or use --rule muon");
  refuse(!muon && !settings.matrix_splits.empty(), "a split of matrices" + rule,
         "only the rule muon has them", "leave the splits out, or use --rule muon");
  if (!muon) return;
  refuse(settings.offload.on(), "offload" + rule, "its momentum is orthogonalised in memory",
         "leave --offload out");
  refuse(settings.space == Space::device, "--space device" + rule,
         "its bytes are compared with steps on the host only", "leave one of the two out");
  refuse(!settings.state_formats.plain(), "state in fewer bits" + rule, "it has fp32 state only",
         "leave the formats of state and master out");
  const std::int64_t ranks = settings.grid.data_ranks() / settings.instances;
  refuse(
      ranks > most_matrix_ranks,
      "the rule muon was planned on " + std::to_string(ranks) + " ranks that share a state",
      "messages between all pairs of at most " + std::to_string(most_matrix_ranks) + " are counted",
      "plan for fewer ranks, or for more --instances");
}

void check_sizes(const PlanSettings& settings, std::int64_t padded_numel) {
  ZP_CHECK(largest_figure(settings, padded_numel) < 0x1p63, ErrorCode::config,
           std::to_string(padded_numel) + " elements and " +
               std::to_string(settings.micro_batches) + " micro-batches are too many for a plan",
           "its bytes may not fit 64 bits",
           "plan for a part of the model, or for fewer micro-batches");
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
           "sums inside the model are split into 8 blocks (R18)",
           "use 1, 2, 4 or 8 for both, and at most 8 for their product");
  const std::int64_t ranks = std::int64_t{dp} * cp * tp;
  ZP_CHECK(ranks <= most_planned_ranks, ErrorCode::config,
           "grid " + text + " has " + std::to_string(ranks) + " ranks",
           "plans end at " + std::to_string(most_planned_ranks), "use a smaller one");
  const std::int64_t nearest_dp = std::max<std::int64_t>(1, (world + cp * tp / 2) / (cp * tp));
  ZP_CHECK(world == 0 || ranks == world, ErrorCode::config,
           "grid " + text + " has " + std::to_string(ranks) + " ranks and the world " +
               std::to_string(world),
           "every rank has one place",
           nearest_dp * cp * tp == world
               ? "use " + std::to_string(nearest_dp) + "x" + std::to_string(cp) + "x" +
                     std::to_string(tp)
               : "use " + std::to_string(world) + "x1x1, or a world that " +
                     std::to_string(cp * tp) + " divides");
  return {dp, cp, tp};
}

std::int64_t update_bytes(const PredictedStep& shape) {
  const std::int64_t per_element = 4 + 2 * shape.master_bytes + num_bytes(shape.param_dtype);
  return per_element * shape.kept_numel() +
         2 * shape.state_bytes(shape.kept_numel(), shape.state_blocks);
}

void require_whole_instances(const PlanSettings& settings) {
  ZP_CHECK(settings.instances >= 1 && settings.grid.dp % settings.instances == 0, ErrorCode::config,
           std::to_string(settings.instances) + " instances cannot share " +
               std::to_string(settings.grid.dp) + " data parallel ranks",
           "every instance has the same number", "use a number that divides them");
}

Plan make_plan(const PlannedModel& model, const PlanSettings& settings) {
  Plan plan;
  plan.settings = settings;
  if (plan.settings.micro_batches == 0) plan.settings.micro_batches = settings.grid.dp;
  require_whole_instances(settings);
  const FlatLayout layout(tp_shapes(model, settings.grid.tp));
  const std::vector<FlatRange> units = named_units(layout);
  check_offload(settings);
  check_matrices(settings);
  check_sizes(plan.settings, layout.padded_numel());
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
