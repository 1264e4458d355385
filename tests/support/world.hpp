#pragma once
// Every parallel configuration equals one rank: steps on the ranks of a grid, compared with the
// undistributed step.

#include <doctest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/comm/self.hpp"
#include "tests/support/whole_grads.hpp"
#include "tests/support/world_truth.hpp"

namespace zeroproof::tests {

using MakeOptimizer = std::function<std::unique_ptr<DistributedOptimizer>(const OptimizerSetup&)>;

/// A scaler that changes within four steps: backs off after an overflow and grows after two good
/// steps.
inline LossScalerConfig lively_scaler() {
  LossScalerConfig scaler;
  scaler.kind = LossScalerKind::dynamic;
  scaler.log2_initial = 3;
  scaler.log2_growth = 2;
  scaler.growth_interval = 2;
  return scaler;
}

/// Some steps in a world.
struct World {
  CutTensors tensors;
  MakeOptimizer make;
  Grid grid = {};
  OptimizerSetup setup =
      {};  ///< settings of all ranks; of the grid only cp, which Grid has as well
  std::function<ShardMap(const FlatLayout&, int ranks)> shards = contract_map(2048);
  std::function<std::unique_ptr<Communicator>(Communicator&)> wrap =
      {};  ///< around the groups of data ranks
  int steps = 4;
  std::int64_t overflow_step = 2;  ///< 0: none
  std::int64_t applied_steps = 5;  ///< before the first
  bool exact = false;              ///< of GradKind
  bool layered = false;            ///< of GradKind
  bool releases = false;           ///< of GradKind: expect_released
  bool on_device = false;          ///< storage for copies of host gradients

  static std::function<ShardMap(const FlatLayout&, int)> contract_map(std::int64_t bucket_numel) {
    return [bucket_numel](const FlatLayout& layout, int ranks) {
      return ShardMap(layout.padded_numel(), ranks, bucket_numel);
    };
  }

  GradKind grads() const {
    return {setup.grad_dtype,
            setup.micro_batches,
            overflow_step,
            setup.missing_grad == MissingGrad::skip,
            exact,
            layered,
            releases};
  }
  InitialState initial() const {
    return InitialState(FlatLayout(tensors.params), setup.scaler, applied_steps);
  }
  bool applies(std::int64_t step) const {
    return step != overflow_step || setup.on_nonfinite != OnNonfinite::skip;
  }
};

inline std::string to_string(const World& world) {
  const OptimizerSetup& setup = world.setup;
  return to_string(world.grid) + ", stage " + std::to_string(setup.stage) + ", M " +
         std::to_string(setup.micro_batches) + ", " + std::string(name(setup.order)) + ", leaf " +
         std::string(name(setup.grad_dtype)) + ", param " + std::string(name(setup.param_dtype)) +
         ", " + std::string(name(setup.hyper.rule)) + ", norm " +
         std::string(name(setup.hyper.norm)) + ", " + std::string(name(setup.grad_sum)) +
         ", persistent " + std::to_string(setup.persistent_numel) +
         (world.layered ? ", layered" : "");
}

/// One rank of a world, loaded.
class WorldRank {
  std::vector<std::unique_ptr<Communicator>> wrapped_;  // outlives the optimizer
  const World& world_;
  const GridPlace place_;
  BytesByClass resting_{};
  bool stepped_ = false;

 public:
  WorldRank(const World& world, const GridPlace& place)
      : world_(world),
        place_(place),
        model(world.tensors, world.grid.tp, place.tp_rank),
        shards(world.shards(model.layout, world.grid.ranks)),
        initial(world.initial().part_of(model)),
        grads(model, world.grads(), world.grid, place.cp_rank, place.tp_rank),
        setup(world.setup) {
    place.into(setup);
    for (Communicator** group : {&setup.comm, &setup.replicas}) {
      if (!world.wrap || *group == nullptr) continue;
      wrapped_.push_back(world.wrap(**group));
      *group = wrapped_.back().get();
    }
    setup.layout = &model.layout;
    setup.shards = &shards;
    setup.cp = world.grid.cp;
    if (world.tensors.cut()) {
      setup.placement = model.placement;
      setup.matrices = matrices_of(model.whole);
    }
  }

  /// Errors: those of the optimizer.
  void load() {
    optimizer = world_.make(setup);
    optimizer->load_state(initial.view());
    resting_ = optimizer->memory().now;
    stepped_ = false;
  }

  /// The difference between two steps, or after loading; "" if none.
  std::string rest_problem(const StepTruth& truth) {
    Comparison comparison(model, truth);
    look_at_rest(comparison, Phase::update);
    return comparison.problem.empty() ? "" : "at rest: " + comparison.problem;
  }

  /// One step; the first difference after any of its phases, or "".
  std::string step(std::int64_t step, const WorldTruth& truth, Coverage* coverage = nullptr) {
    const StepTruth& right = truth[step];
    prepare_grads(step);
    Comparison comparison(model, right);
    const bool applied = optimizer->step(grads, &comparison);
    comparison.expect(applied == right.applied && applied == world_.applies(step),
                      BufferId::found_inf, " led to another decision");
    const bool nothing_gathered = applied && optimizer->exposed(Phase::gather).empty();
    comparison.expect(
        comparison.phases.size() + (nothing_gathered ? 1 : 0) == (applied ? all_phases.size() : 3),
        BufferId::found_inf, " led to other phases");
    comparison.expect(
        optimizer->loss_scaler() == read<LossScalerState>(right.at(BufferId::loss_scaler)) &&
            optimizer->applied_steps() == read<std::int64_t>(right.at(BufferId::applied_steps)),
        BufferId::loss_scaler, " or the count of steps is wrong");
    if (!applied) look_at_rest(comparison, Phase::norm);
    if (coverage != nullptr) {
      const int group = place_.instance * world_.grid.tp + place_.tp_rank;
      for (const Phase phase : all_phases) {
        for (const ExposedBuffer& buffer : optimizer->exposed(phase)) {
          if (has_elements(buffer.id)) coverage->add(group, model, buffer);
        }
      }
    }
    std::string problem = comparison.problem;
    if (problem.empty()) problem = grads.problem;
    if (problem.empty() && !is_at_rest()) problem = "memory is not back at its resting value";
    if (problem.empty() && !optimizer->damaged_guard().empty())
      problem = "damaged guard of " + optimizer->damaged_guard();
    return problem.empty() ? "" : "step " + std::to_string(step) + ": " + problem;
  }

  /// Gradients of a step, scaled by this rank's loss scale.
  void prepare_grads(std::int64_t step) {
    grads.step = step;
    grads.log2_scale = optimizer->loss_scaler().log2_scale;
  }

  const GridPlace& place() const { return place_; }

  const RankModel model;
  ShardMap shards;
  InitialState initial;
  NumberedGrads grads;
  OptimizerSetup setup;  ///< may be changed until load()
  std::unique_ptr<DistributedOptimizer> optimizer;

 private:
  /// The first step allocates gradients and messages, which are kept; all other memory is as after
  /// loading.
  bool is_at_rest() {
    const BytesByClass now = optimizer->memory().now;
    if (std::exchange(stepped_, true)) return now == resting_;
    for (const MemoryClass made :
         {MemoryClass::grad_nodes, MemoryClass::comm_buffer, MemoryClass::grad}) {
      if (made == MemoryClass::grad && !world_.on_device) continue;
      resting_[static_cast<std::size_t>(made)] = now[static_cast<std::size_t>(made)];
    }
    return now == resting_;
  }

  void look_at_rest(Comparison& comparison, Phase first) {
    for (const Phase phase : all_phases) {
      if (phase < first) continue;
      for (const ExposedBuffer& buffer : optimizer->exposed(phase)) {
        if (comparison.truth().buffers.contains(buffer.id)) comparison.look_at(buffer);
      }
    }
  }
};

/// Calls work(rank) on every rank, which returns "" or the problem, and checks every rank.
template <class Work>
void check_ranks(const World& world, const std::string& what, Work work) {
  std::vector<std::string> problems(world.grid.size());
  try {
    run_grid(world.grid, [&](const GridPlace& place) {
      WorldRank rank(world, place);
      problems[place.number] = work(rank);
    });
  } catch (const Error&) {
    // A rank that stops at its first difference breaks the others' collectives: their errors are consequences.
    if (std::ranges::all_of(problems, &std::string::empty)) throw;
  }
  INFO(what, " ", to_string(world));
  for (const std::string& problem : problems) CHECK(problem == "");
}

/// Every buffer of every phase of every step is equal to the truth, on every rank; together the
/// ranks of an instance have every element; and every gradient was requested once.
inline void check_world(const World& world, const WorldTruth& truth, const std::string& what = "") {
  Coverage coverage;
  std::atomic<std::int64_t> asked = 0;
  check_ranks(world, what, [&](WorldRank& rank) {
    rank.load();
    std::string problem = rank.rest_problem(truth[0]);
    for (int step = 1; step <= world.steps && problem.empty(); ++step)
      problem = rank.step(step, truth, step == 1 ? &coverage : nullptr);
    asked += static_cast<std::int64_t>(rank.grads.asked.size());
    return problem;
  });
  INFO(what, " ", to_string(world));
  CHECK(coverage.lacking(world.grid.instances * world.grid.tp, truth.back(),
                         world.setup.stage == 3) == "");
  CHECK(asked == world.steps * world.setup.micro_batches * world.grid.cp * world.grid.tp);
}

/// The same steps on one rank, which has the whole model.
inline WorldTruth truth_of_one_rank(const World& world) {
  struct Recorder final : StepObserver {
    explicit Recorder(StepTruth& truth) : truth(truth) {}
    void observe(Phase, const ExposedBuffer& buffer) override { truth.keep(buffer); }
    StepTruth& truth;
  };
  WholeGrads grads(world.tensors, world.grads(), world.grid);
  const FlatLayout layout(world.tensors.params);
  const ShardMap shards(layout.padded_numel(), 1, 1024);
  const std::unique_ptr<Communicator> self = make_self_communicator();
  OptimizerSetup setup = world.setup;
  setup.layout = &layout;
  setup.shards = &shards;
  setup.comm = self.get();
  setup.stage = 0;
  setup.order = MicroBatchOrder::contiguous;
  setup.grad_dtype = grads.dtype();
  const std::unique_ptr<DistributedOptimizer> optimizer = world.make(setup);
  const InitialState initial = world.initial();
  optimizer->load_state(initial.view());
  WorldTruth truth(static_cast<std::size_t>(world.steps) + 1);
  const auto keep = [&](StepTruth& of_step, Phase first) {
    for (const Phase phase : all_phases) {
      if (phase < first) continue;
      for (const ExposedBuffer& buffer : optimizer->exposed(phase)) of_step.keep(buffer);
    }
  };
  keep(truth[0], Phase::update);
  for (int step = 1; step <= world.steps; ++step) {
    StepTruth& of_step = truth[step];
    Recorder recorder(of_step);
    grads.begin_step(step, optimizer->loss_scaler().log2_scale,
                     optimizer->exposed(Phase::gather).front().view);
    of_step.applied = optimizer->step(grads, &recorder);
    if (!of_step.applied) keep(of_step, Phase::norm);
  }
  return truth;
}

/// Both, with one rank of the same optimizer as the truth.
inline void check_against_one_rank(const World& world) {
  check_world(world, truth_of_one_rank(world));
}

}  // namespace zeroproof::tests
