#pragma once
// Steps on simulated devices, their bytes counted where they are allocated and sent, next to the
// predictions.

#include <dlfcn.h>
#include <doctest.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cuda/device/runtime/runtime.hpp"
#include "cuda/optimizer/device_optimizer.hpp"
#include "tests/verification/tools/plan/accounting_run.hpp"

namespace zeroproof::tests {

#if defined(ZP_FAKE_NCCL_LIBRARY)  // a path; unset without nccl.h
inline constexpr Transport nccl_if_built = Transport::nccl;
/// The library is loaded once per process.
[[maybe_unused]] inline const bool library_is_named =
    ::setenv("ZP_NCCL_LIBRARY", ZP_FAKE_NCCL_LIBRARY, 1) == 0;

/// Errors of the fake device since the last call.
inline std::string complaints() {
  void* const library = ::dlopen(ZP_FAKE_NCCL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  return reinterpret_cast<const char* (*)()>(::dlsym(library, "zp_fake_nccl_complaints"))();
}
#else
inline constexpr Transport nccl_if_built = Transport::copies;
inline std::string complaints() { return ""; }
#endif

/// Execution of a step: phase by phase, with one kernel for each or fused; or enqueued as a whole.
enum class DeviceForm { phases, fused_phases, enqueued, graphs };

struct DeviceRun {
  AccountedRun run;
  DeviceForm form = DeviceForm::phases;
  std::function<void(const GridPlace& place, const MemoryUse& use)> at_end = {};  ///< on every rank

  bool enqueued() const { return form == DeviceForm::enqueued || form == DeviceForm::graphs; }
  std::string id() const {
    return run.id() + " form " + std::to_string(static_cast<int>(form)) + " transport " +
           std::string(name(run.setup.transport));
  }
};

/// Traffic of a rank's communicator groups since the last call of take().
class CountedDeviceCommGroups {
 public:
  explicit CountedDeviceCommGroups(const cuda::DeviceOptimizer& optimizer)
      : optimizer_(optimizer), before_(optimizer.comm_groups().traffic()) {}

  StepCounts take() {
    const std::array<Traffic, num_comm_groups> now = optimizer_.comm_groups().traffic();
    const cuda::CommGroups comm_groups = optimizer_.comm_groups().comm_groups();
    const std::array<const Communicator*, num_comm_groups> groups = {
        comm_groups.comm, comm_groups.replicas, comm_groups.tp};
    StepCounts counts;
    for (std::size_t g = 0; g < now.size(); ++g) {
      for (std::size_t c = 0; c < now[g].of_kind.size(); ++c) {
        const TrafficEntry& last = now[g].of_kind[c];
        const TrafficEntry& first = before_[g].of_kind[c];
        const bool alone = groups[g] == nullptr || groups[g]->world_size() == 1;
        counts.of[g][c] = {
            alone ? 0 : last.calls - first.calls, last.messages_sent - first.messages_sent,
            last.messages_received - first.messages_received, last.bytes_sent - first.bytes_sent,
            last.bytes_received - first.bytes_received};
      }
    }
    before_ = now;
    return counts;
  }

 private:
  const cuda::DeviceOptimizer& optimizer_;
  std::array<Traffic, num_comm_groups> before_;
};

/// The predicted traffic of the phases from `begin` to before `end`.
inline StepCounts counts_between(const StepTraffic& traffic, Phase begin, Phase end) {
  StepCounts counts;
  for (const Phase phase : all_phases) {
    if (phase >= begin && phase <= end) counts += counts_of(traffic, phase);
  }
  return counts;
}

/// Integers that the host reads are sent over its own communicators, in phase prepare; all others
/// over the transport.
inline std::string problem_of_phase(Phase phase, const StepCounts& control,
                                    const StepCounts& transport, const StepTraffic& predicted) {
  const StepCounts expected = counts_of(predicted, phase);
  const bool prepares = phase == Phase::prepare;
  std::string problem = control.difference(prepares ? expected : StepCounts{});
  if (!problem.empty()) return "phase " + std::string(name(phase)) + ", host: " + problem;
  problem = transport.difference(prepares ? StepCounts{} : expected);
  return problem.empty() ? "" : "phase " + std::string(name(phase)) + ", transport: " + problem;
}

inline std::string count_device_step(const DeviceRun& run, cuda::DeviceOptimizer& optimizer,
                                     GradSource& source, CountedGroups& control,
                                     CountedDeviceCommGroups& transport,
                                     const StepTraffic& predicted) {
  std::string problem;
  if (run.enqueued()) {
    optimizer.enqueue_step(source);
    optimizer.wait();
    problem = control.take().difference(counts_of(predicted, Phase::prepare));
    if (!problem.empty()) return "step, host: " + problem;
    problem = transport.take().difference(counts_between(predicted, Phase::reduce, Phase::gather));
    if (!problem.empty()) return "step, transport: " + problem;
  } else {
    for (const Phase phase : all_phases) {
      if (!skipped_on_overflow(phase) || !optimizer.skipped()) optimizer.run_phase(phase, source);
      const std::string of_phase =
          problem_of_phase(phase, control.take(), transport.take(), predicted);
      if (problem.empty()) problem = of_phase;
    }
  }
  if (!problem.empty()) return problem;
  return optimizer.skipped() == run.run.overflows ? "" : "skipped, or not skipped";
}

/// Errors: those of the optimizer.
inline RankAccount account_device_rank(const DeviceRun& device, const World& world,
                                       GridPlace place) {
  const AccountedRun& run = device.run;
  CountedGroups control(place);
  WorldRank rank(world, place);
  if (run.grid.tp == 1) rank.setup.placement.clear();
  const FlatLayout& layout = rank.model.layout;
  const std::vector<FlatRange> units = units_of(run, layout);
  ZeroGrads zeros(layout, rank.setup.grad_dtype, run.overflows, units,
                  visits_of(run, units.size()));
  SyntheticLayers layers(layout, 0);
  GradSource& source =
      run.leaves == GradsArrive::by_tensor ? static_cast<GradSource&>(layers) : zeros;
  rank.load();
  auto& optimizer = static_cast<cuda::DeviceOptimizer&>(*rank.optimizer);
  CountedDeviceCommGroups transport(optimizer);
  PredictedStep shape = predicted_step(rank.setup, source.layers());
  control.take();
  put_on_device(shape, device.enqueued());
  RankAccount account;
  account.predicted_traffic = predict_traffic(shape, run.overflows);
  account.predicted_memory = predict_memory(shape);
  for (int step = 0; step < 2; ++step) {
    const std::string problem =
        count_device_step(device, optimizer, source, control, transport, account.predicted_traffic);
    if (account.problem.empty()) account.problem = problem;
  }
  account.memory = optimizer.memory();
  if (account.problem.empty()) {
    account.problem =
        memory_difference(account.memory, account.predicted_memory, run.has_two_streams());
  }
  if (device.at_end) device.at_end(place, account.memory);
  return account;
}

/// The account of every rank, by its number in the world.
inline std::vector<RankAccount> account_on_devices(const DeviceRun& device) {
  const AccountedRun& run = device.run;
  const bool fused = device.form != DeviceForm::phases, graphs = device.form == DeviceForm::graphs;
  const MakeOptimizer make = [&](const OptimizerSetup& setup) {
    return std::make_unique<cuda::DeviceOptimizer>(setup, fused, graphs);
  };
  World world{run.tensors, make, run.grid, run.setup};
  world.shards = [&](const FlatLayout& layout, int ranks) {
    return make_shard_map(run.layout, layout, ranks, run.bucket_numel);
  };
  std::vector<RankAccount> accounts(run.grid.size());
  run_grid(run.grid, [&](const GridPlace& place) {
    accounts[place.number] = account_device_rank(device, world, place);
  });
  cuda::device::wait_for_stream();  // work left on the ranks' streams
  return accounts;
}

/// Checks every rank of a run.
inline void check_device_account(const DeviceRun& device) {
  const std::vector<RankAccount> accounts = account_on_devices(device);
  for (std::size_t rank = 0; rank < accounts.size(); ++rank) {
    const std::string& problem = accounts[rank].problem;
    CHECK_MESSAGE(problem.empty(), device.id(), ", rank ", rank, ": ", problem);
  }
}

}  // namespace zeroproof::tests
