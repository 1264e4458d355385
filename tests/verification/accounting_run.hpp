#pragma once
// Steps of the production optimizer, their bytes counted where they are allocated and sent, next to the
// predictions.

#include <doctest.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "common/comm/recording.hpp"
#include "common/comm/threads.hpp"
#include "common/layout/peer_layouts.hpp"
#include "common/layout/step_shape.hpp"
#include "common/layout/tp_cut.hpp"
#include "common/layout/traffic_model.hpp"
#include "cuda/distributed_optimizer.hpp"
#include "tests/verification/accounting_counts.hpp"
#include "tests/verification/accounting_leaves.hpp"
#include "tests/verification/synthetic_layers.hpp"
#include "verification/plan/model.hpp"

namespace zeroproof::tests {

/// How gradients come: whole; a unit of every tensor; units of three tensors, one of them tied; the units of
/// zeroproof plan.
enum class LeavesCome { whole, by_tensor, by_group, by_name };

/// Tensors of the undistributed model, and where TP cuts them.
struct CutTensors {
  std::vector<ParamSpec> params;
  std::vector<int> dims;  // [params] -1: not cut
};

/// Odd sizes, an empty tensor, a scalar, tensors over several chunks; cut in dimension 0, in 1, or not at
/// all.
inline CutTensors odd_tensors() {
  return {{{"embed", {40, 61}},
           {"bias", {77}},
           {"empty", {0}},
           {"w", {50, 61}},
           {"norm", {3}},
           {"v", {1025}},
           {"scalar", {}},
           {"u", {2, 1024}}},
          {0, -1, -1, 1, -1, -1, -1, 1}};
}

struct AccountedRun {
  int instances = 1;
  int ranks = 1;  ///< of one instance
  int tp = 1;
  LayoutKind layout = LayoutKind::contract;
  std::int64_t bucket_numel = 2048;
  LeavesCome leaves = LeavesCome::whole;
  cuda::StepForm form = cuda::StepForm::phases;
  bool overflows = false;
  CutTensors tensors = odd_tensors();
  OptimizerSetup setup = {};  ///< everything that is the same on all ranks

  int world_size() const { return instances * ranks * tp; }
  /// Only then does the peak of the sum depend on timing (cuda/layered_pass.hpp).
  bool has_two_streams() const { return setup.overlap && setup.stage >= 2 && leaves != LeavesCome::whole; }
  std::string id() const {
    const auto number = [](auto value) { return std::to_string(static_cast<std::int64_t>(value)); };
    return number(instances) + "x" + number(ranks) + "x" + number(tp) + " cp " + number(setup.cp) +
           " stage " + number(setup.stage) + " " + std::string(name(setup.order)) + " " +
           std::string(name(setup.grad_sum)) + " M " + number(setup.micro_batches) + " " +
           std::string(name(layout)) + " bucket " + number(bucket_numel) + " leaves " + number(leaves) +
           " form " + number(form) + " overlap " + number(setup.overlap) + " overflows " + number(overflows) +
           " persistent " + number(setup.persistent_numel) + " param " +
           std::string(name(setup.param_dtype)) + " leaf " + std::string(name(setup.leaf_dtype)) + " norm " +
           std::string(name(setup.hyper.norm)) + " missing " + number(setup.missing_grad) + " tokens " +
           number(setup.loss_reduction);
  }
};

inline std::vector<FlatRange> units_of(const AccountedRun& run, const FlatLayout& layout) {
  if (run.leaves == LeavesCome::by_name) return verification::named_units(layout);
  if (run.leaves == LeavesCome::by_group) return grouped_units(layout, 3);
  return {};
}

/// The groups of one rank, made by splitting the world; each kind of group has a record of its own.
class CountedGroups {
 public:
  CountedGroups(const AccountedRun& run, Communicator& world)
      : place_(place_of(run, world.rank())),
        records_{RecordingCommunicator(world), RecordingCommunicator(world), RecordingCommunicator(world)} {
    const std::array<int, num_comm_groups> colours = {
        place_.instance * run.tp + place_.tp, place_.rank * run.tp + place_.tp, world.rank() / run.tp};
    for (std::size_t g = 0; g < records_.size(); ++g) groups_[g] = records_[g].split(colours[g]);
    take();
  }

  struct Place {
    int instance, rank, tp;
  };
  const Place& place() const { return place_; }

  void into(OptimizerSetup& setup) const {
    setup.comm = groups_[0].get();
    if (groups_[1]->world_size() > 1) setup.replicas = groups_[1].get();
    if (groups_[2]->world_size() > 1) setup.tp = groups_[2].get();
  }

  /// What was counted since the last call.
  StepCounts take() {
    StepCounts counts;
    for (std::size_t g = 0; g < records_.size(); ++g) {
      counts.of[g] = records_[g].traffic().of_kind;
      for (TrafficEntry& entry : counts.of[g]) {
        if (groups_[g]->world_size() == 1) entry.calls = 0;
      }
      records_[g].reset();
    }
    return counts;
  }

 private:
  static Place place_of(const AccountedRun& run, int rank) {
    return {rank / run.tp / run.ranks, rank / run.tp % run.ranks, rank % run.tp};
  }

  Place place_;
  std::array<RecordingCommunicator, num_comm_groups> records_;
  std::array<std::unique_ptr<Communicator>, num_comm_groups> groups_;
};

/// What one rank measured and what was predicted for it.
struct RankAccount {
  MemoryUse memory, predicted_memory;
  StepTraffic predicted_traffic;
  std::array<StepCounts, all_phases.size()> traffic{};  ///< of the last step
  std::string problem;
};

/// Two steps, phase by phase; fused passes may send in another phase, so only their steps are compared.
inline void count_steps(const AccountedRun& run, DistributedOptimizer& optimizer, LeafSource& source,
                        CountedGroups& groups, RankAccount& account) {
  const auto complain = [&](const std::string& where, const std::string& problem) {
    if (account.problem.empty() && !problem.empty()) account.problem = where + ": " + problem;
  };
  for (int step = 0; step < 2; ++step) {
    StepCounts counted;
    StepCounts predicted;
    for (const Phase phase : all_phases) {
      if (!skipped_on_overflow(phase) || !optimizer.skipped()) optimizer.run_phase(phase, source);
      const StepCounts of_phase = groups.take();
      const StepCounts expected = counts_of(account.predicted_traffic, phase);
      if (run.form == cuda::StepForm::phases)
        complain("phase " + std::string(name(phase)), of_phase.difference(expected));
      account.traffic[static_cast<std::size_t>(phase)] = of_phase;
      counted += of_phase;
      predicted += expected;
    }
    complain("step", counted.difference(predicted));
    if (optimizer.skipped() != run.overflows) complain("step", "skipped, or not skipped");
  }
}

/// Errors: those of the optimizer.
inline RankAccount account_rank(const AccountedRun& run, Communicator& world) {
  CountedGroups groups(run, world);
  const TpModel model = make_tp_model(run.tensors.params, run.tensors.dims, run.tp, groups.place().tp);
  const FlatLayout layout(model.params);
  const ShardMap shards = make_shard_map(run.layout, layout, run.ranks, run.bucket_numel);
  OptimizerSetup setup = run.setup;
  setup.layout = &layout;
  setup.shards = &shards;
  if (run.tp > 1) setup.placement = model.placement;
  groups.into(setup);
  ZeroLeaves zeros(layout, setup.leaf_dtype, run.overflows, units_of(run, layout),
                   run.leaves == LeavesCome::by_group);
  SyntheticLayers layers(layout, 0);
  LeafSource& source = run.leaves == LeavesCome::by_tensor ? static_cast<LeafSource&>(layers) : zeros;
  const auto optimizer = cuda::make_distributed_optimizer(setup, run.form);
  const std::vector<float> state(static_cast<std::size_t>(layout.padded_numel()), 0.5F);
  const std::vector<std::uint64_t> tensor_steps(layout.tensors().size());
  optimizer->load_state({state, state, state, {}, {}, tensor_steps, 0, {}});
  groups.take();
  const StepShape shape = step_shape(setup, source.layers());
  RankAccount account;
  account.predicted_traffic = predict_traffic(shape, run.overflows);
  account.predicted_memory = predict_memory(shape);
  count_steps(run, *optimizer, source, groups, account);
  account.memory = optimizer->memory();
  if (account.problem.empty()) {
    account.problem = memory_difference(account.memory, account.predicted_memory, run.has_two_streams());
  }
  return account;
}

/// The account of every rank, by its number in the world: data rank * TP ranks + TP rank.
inline std::vector<RankAccount> account(const AccountedRun& run) {
  std::vector<RankAccount> accounts(static_cast<std::size_t>(run.world_size()));
  ThreadWorld world(run.world_size(), std::chrono::milliseconds{20'000});
  run_ranks(world, [&](Communicator& comm) {
    accounts[static_cast<std::size_t>(comm.rank())] = account_rank(run, comm);
  });
  return accounts;
}

/// Checks every rank of a run.
inline void check_account(const AccountedRun& run) {
  const std::vector<RankAccount> accounts = account(run);
  for (std::size_t rank = 0; rank < accounts.size(); ++rank) {
    const std::string& problem = accounts[rank].problem;
    CHECK_MESSAGE(problem.empty(), run.id(), ", rank ", rank, ": ", problem);
  }
}

}  // namespace zeroproof::tests
