#pragma once
// Steps of the production optimizer, their bytes counted where they are allocated and sent, next to
// the predictions.

#include <doctest.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/comm/recording.hpp"
#include "common/layout/peer_layouts.hpp"
#include "tests/support/production.hpp"
#include "tests/verification/tools/plan/accounting_counts.hpp"
#include "tests/verification/tools/plan/accounting_grads.hpp"
#include "tests/verification/training/synthetic_layers.hpp"
#include "verification/tools/plan/model.hpp"
#include "verification/tools/plan/predict/predicted_step.hpp"
#include "verification/tools/plan/predict/traffic_model.hpp"

namespace zeroproof::tests {

/// Delivery of gradients: whole; a unit of every tensor; units of three tensors, the first one tied
/// to the last; the same, with the last one visited before all others, the first one twice in a row
/// and one in the middle again at the end; the units of zeroproof plan.
enum class GradsArrive { whole, by_tensor, by_group, by_group_again, by_name };

/// Odd sizes, an empty tensor, a scalar, tensors over several chunks; split in dimension 0, in 1,
/// or not at all.
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
  Grid grid = {};
  LayoutKind layout = LayoutKind::contract;
  std::int64_t bucket_numel = 2048;
  GradsArrive leaves = GradsArrive::whole;
  bool fused = false;
  bool overflows = false;
  CutTensors tensors = odd_tensors();
  OptimizerSetup setup = {};  ///< everything that is the same on all ranks; cp is of the grid

  /// Only then does the peak of the sum depend on timing (cuda/optimizer/layered/layered_pass.hpp).
  bool has_two_streams() const {
    return setup.overlap && setup.stage >= 2 && leaves != GradsArrive::whole;
  }
  std::string id() const {
    const auto number = [](auto value) { return std::to_string(static_cast<std::int64_t>(value)); };
    return to_string(grid) + " stage " + number(setup.stage) + " " +
           std::string(name(setup.order)) + " " + std::string(name(setup.grad_sum)) + " M " +
           number(setup.micro_batches) + " " + std::string(name(layout)) + " bucket " +
           number(bucket_numel) + " leaves " + number(leaves) + " fused " + number(fused) +
           " overlap " + number(setup.overlap) + " overflows " + number(overflows) +
           " persistent " + number(setup.persistent_numel) + " param " +
           std::string(name(setup.param_dtype)) + " leaf " + std::string(name(setup.grad_dtype)) +
           " norm " + std::string(name(setup.hyper.norm)) + " windows " +
           std::string(name(setup.windows)) + " missing " + number(setup.missing_grad) +
           " tokens " + number(setup.loss_reduction);
  }
};

inline std::vector<FlatRange> units_of(const AccountedRun& run, const FlatLayout& layout) {
  if (run.leaves == GradsArrive::by_name) return verification::named_units(layout);
  if (run.leaves == GradsArrive::by_group || run.leaves == GradsArrive::by_group_again)
    return grouped_units(layout, 3);
  return {};
}

inline std::vector<int> visits_of(const AccountedRun& run, std::size_t num_units) {
  const auto count = static_cast<int>(num_units);
  std::vector<int> visits;
  if (run.leaves == GradsArrive::by_group_again) visits = {count - 1, 0};
  for (int u = 0; u < count; ++u) visits.push_back(u);
  if (run.leaves == GradsArrive::by_group) visits.push_back(0);
  if (run.leaves == GradsArrive::by_group_again) visits.push_back(count / 2);
  return visits;
}

/// Finds received parts of a reduction that do not begin at a multiple of 16 bytes.
class AlignedParts final : public WrappedCommunicator {
 public:
  using WrappedCommunicator::WrappedCommunicator;

  void all_to_all(Span<const Span<const std::byte>> send,
                  Span<const Span<std::byte>> recv) override {
    for (const Span<std::byte> part : recv) {
      if (!part.empty() && reinterpret_cast<std::uintptr_t>(part.data()) % 16 != 0) ++unaligned;
    }
    inner_.all_to_all(send, recv);
  }

  int unaligned = 0;
};

/// The groups of one rank, each with a separate record.
class CountedGroups {
 public:
  /// Replaces the groups by itself.
  explicit CountedGroups(GridPlace& place) {
    Communicator** const groups[] = {&place.comm, &place.replicas, &place.tp};
    for (std::size_t g = 0; g < records_.size(); ++g) {
      if (*groups[g] != nullptr) *groups[g] = &records_[g].emplace(**groups[g]);
    }
  }

  /// The counts since the last call. The creation of windows is set-up: its bytes are counted here,
  /// its calls are not.
  StepCounts take() {
    StepCounts counts;
    for (std::size_t g = 0; g < records_.size(); ++g) {
      if (!records_[g]) continue;
      counts.of[g] = records_[g]->traffic().of_kind;
      for (TrafficEntry& entry : counts.of[g]) {
        if (records_[g]->world_size() == 1) entry.calls = 0;
      }
      TrafficEntry& windows = counts.of[g][static_cast<std::size_t>(Collective::shared_window)];
      windows_made_ += std::exchange(windows.calls, 0);
      records_[g]->reset();
    }
    return counts;
  }

  /// The same of windows, by groups of more than one rank.
  std::int64_t take_windows() { return std::exchange(windows_made_, 0); }

 private:
  std::int64_t windows_made_ = 0;
  std::array<std::optional<RecordingCommunicator>, num_comm_groups> records_;
};

/// Measured and predicted figures of one rank.
struct RankAccount {
  MemoryUse memory, predicted_memory;
  StepTraffic predicted_traffic;
  std::array<StepCounts, all_phases.size()> traffic{};  ///< of the last step
  std::string problem;
};

/// Two steps, phase by phase; fused passes may send in another phase, so only their steps are
/// compared.
inline void count_steps(const AccountedRun& run, DistributedOptimizer& optimizer,
                        GradSource& source, CountedGroups& groups, RankAccount& account) {
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
      if (!run.fused) complain("phase " + std::string(name(phase)), of_phase.difference(expected));
      account.traffic[static_cast<std::size_t>(phase)] = of_phase;
      counted += of_phase;
      predicted += expected;
    }
    complain("step", counted.difference(predicted));
    const std::int64_t windows = groups.take_windows();
    const bool may_make = step == 0 && run.setup.windows != Windows::off;
    if (windows > 0 && !may_make)
      complain("step", "a window is made that is not wanted, or was made before");
    if (optimizer.skipped() != run.overflows) complain("step", "skipped, or not skipped");
  }
}

/// Errors: those of the optimizer.
inline RankAccount account_rank(const AccountedRun& run, const World& world, GridPlace place) {
  CountedGroups groups(place);
  AlignedParts parts(*place.comm);
  place.comm = &parts;
  WorldRank rank(world, place);
  if (run.grid.tp == 1) rank.setup.placement.clear();
  const OptimizerSetup& setup = rank.setup;
  const FlatLayout& layout = rank.model.layout;
  const std::vector<FlatRange> units = units_of(run, layout);
  ZeroGrads zeros(layout, setup.grad_dtype, run.overflows, units, visits_of(run, units.size()));
  SyntheticLayers layers(layout, 0);
  GradSource& source =
      run.leaves == GradsArrive::by_tensor ? static_cast<GradSource&>(layers) : zeros;
  rank.load();
  const PredictedStep shape = predicted_step(setup, source.layers());
  groups.take();
  RankAccount account;
  account.predicted_traffic = predict_traffic(shape, run.overflows);
  account.predicted_memory = predict_memory(shape);
  count_steps(run, *rank.optimizer, source, groups, account);
  if (parts.unaligned > 0 && account.problem.empty())
    account.problem = std::to_string(parts.unaligned) + " parts are not at multiples of 16 bytes";
  account.memory = rank.optimizer->memory();
  if (account.problem.empty()) {
    account.problem =
        memory_difference(account.memory, account.predicted_memory, run.has_two_streams());
  }
  return account;
}

/// The account of every rank, by its number in the world: data rank * TP ranks + TP rank.
inline std::vector<RankAccount> account(const AccountedRun& run) {
  World world{run.tensors, production(run.fused), run.grid, run.setup};
  world.shards = [&](const FlatLayout& layout, int ranks) {
    return make_shard_map(run.layout, layout, ranks, run.bucket_numel);
  };
  std::vector<RankAccount> accounts(run.grid.size());
  run_grid(run.grid, [&](const GridPlace& place) {
    accounts[place.number] = account_rank(run, world, place);
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
