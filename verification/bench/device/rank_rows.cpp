#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>

#include "common/comm/threads.hpp"
#include "cuda/enqueued_optimizer.hpp"
#include "cuda/reduce/sources/device_leaf_source.hpp"
#include "verification/bench/device/cases.hpp"
#include "verification/bench/device/suite.hpp"
#include "verification/bench/measure/rounds.hpp"

namespace zeroproof::verification::bench {
namespace {

constexpr int layers = 16;
constexpr const char* bare = "reduce, no backward pass";
constexpr const char* after = "reduce after the backward pass";
constexpr const char* during = "reduce during the backward pass";
constexpr const char* hidden = "reduce overlapped, no backward pass";
constexpr const char* host = "reduce during it, until enqueued";

/// Layers of one size, each a unit and a bucket.
struct Model {
  explicit Model(std::int64_t numel, int ranks)
      : layout(params(std::max<std::int64_t>(1, numel / layers))),
        shards(layout.padded_numel(), ranks, layout.padded_numel() / layers) {
    for (const TensorSlot& tensor : layout.tensors())
      units.push_back({tensor.begin, tensor.begin + layout.padded_numel() / layers});
  }

  static std::vector<ParamSpec> params(std::int64_t numel) {
    std::vector<ParamSpec> all;
    for (int i = 0; i < layers; ++i) all.push_back({"layer" + std::to_string(i), {numel}});
    return all;
  }

  FlatLayout layout;
  ShardMap shards;
  std::vector<FlatRange> units;
};

/// One rank of stage 2, whose phase reduce is timed.
class RankReduce {
 public:
  RankReduce(const Model& model, Communicator& comm, bool overlap) : model_(model), comm_(comm) {
    OptimizerSetup setup = step_setup(model.layout, model.shards, comm, 2);
    setup.overlap = overlap;
    optimizer_ = cuda::make_enqueued_optimizer(setup);
    optimizer_->load_state(FirstState(model.layout).view());
  }

  cuda::DeviceLeafSource leaves(double ns_per_element) const {
    return {{}, model_.layout, DType::bf16, optimizer_->log2_loss_scale(), {0, ns_per_element}, model_.units};
  }

  /// From a moment when every rank is ready until all are done. The host waits for the device at both ends.
  double sample(GradSource& leaves) {
    optimizer_->run_phase(Phase::prepare, leaves);
    const auto begin = meet();
    optimizer_->run_phase(Phase::reduce, leaves);
    const std::chrono::duration<double> enqueued = std::chrono::steady_clock::now() - begin;
    host_seconds_ = enqueued.count();
    const std::chrono::duration<double> took = meet() - begin;
    for (const Phase phase : all_phases) {
      if (phase == Phase::prepare || phase == Phase::reduce) continue;
      if (!skipped_on_overflow(phase) || !optimizer_->skipped()) optimizer_->run_phase(phase, leaves);
    }
    return took.count();
  }

  /// Of the host, until the last sample's phase was enqueued.
  double host_seconds() const { return host_seconds_; }

 private:
  std::chrono::steady_clock::time_point meet() {
    static_cast<void>(optimizer_->loss_scaler());  // reads the device, behind everything it was given
    comm_.barrier();
    return std::chrono::steady_clock::now();
  }

  const Model& model_;
  Communicator& comm_;
  std::unique_ptr<cuda::EnqueuedOptimizer> optimizer_;
  double host_seconds_ = 0;
};

/// What a rank found; that of rank 0 is reported.
struct Found {
  std::vector<double> bare, after, during, hidden, host;
  double backward = 0;  ///< seconds that the pace gives a rank's backward pass
};

/// A backward pass that takes twice as long as the communication, by every rank's clock.
double chosen_pace(RankReduce& reduce, cuda::DeviceLeafSource& leaves, const Model& model,
                   Communicator& comm) {
  std::vector<double> seconds;
  for (int i = 0; i < 4; ++i) seconds.push_back(reduce.sample(leaves));
  seconds.erase(seconds.begin());
  std::uint64_t nanoseconds = static_cast<std::uint64_t>(1e9 * median_of(seconds));
  comm.all_reduce({&nanoseconds, 1}, IntegerReduce::max);
  return 2.0 * static_cast<double>(nanoseconds) / static_cast<double>(model.layout.padded_numel());
}

Found run_rank(const Model& model, Communicator& comm, int rounds) {
  RankReduce serial(model, comm, false), overlapped(model, comm, true);
  cuda::DeviceLeafSource at_once = serial.leaves(0), overlapped_at_once = overlapped.leaves(0);
  const double pace = chosen_pace(serial, at_once, model, comm);
  cuda::DeviceLeafSource serial_leaves = serial.leaves(pace), overlapped_leaves = overlapped.leaves(pace);
  Found found;
  found.backward = 1e-9 * static_cast<double>(serial_leaves.length());
  for (int round = 0; round <= rounds; ++round) {
    for (const std::size_t i : shuffled(4, static_cast<std::uint32_t>(round))) {
      const double seconds = i == 0   ? serial.sample(at_once)
                             : i == 1 ? serial.sample(serial_leaves)
                             : i == 2 ? overlapped.sample(overlapped_leaves)
                                      : overlapped.sample(overlapped_at_once);
      if (round == 0) continue;
      (i == 0 ? found.bare : i == 1 ? found.after : i == 2 ? found.during : found.hidden).push_back(seconds);
      if (i == 2) found.host.push_back(overlapped.host_seconds());
    }
  }
  return found;
}

/// What overlap leaves to be seen of the communication, in buckets' worth of it, round by round.
double exposed_buckets(const Found& found, std::size_t num_buckets) {
  std::vector<double> buckets;
  for (std::size_t i = 0; i < found.during.size(); ++i) {
    const double whole = found.after[i] - found.backward;
    const double seen = found.during[i] - found.backward;
    buckets.push_back(whole > 0 ? seen / whole * static_cast<double>(num_buckets)
                                : std::numeric_limits<double>::infinity());
  }
  return median_of(buckets);
}

}  // namespace

Group measure_ranks(std::int64_t numel, int ranks, int rounds) {
  const Model model(numel, ranks);
  ThreadWorld world(ranks);
  Found found;
  run_ranks(world, [&](Communicator& comm) {
    const Found mine = run_rank(model, comm, rounds);
    if (comm.rank() == 0) found = mine;
  });
  Group group{std::to_string(ranks) + " ranks by copies, stage 2, " +
              std::to_string(elements_of(model.layout)) + " elements in " + std::to_string(layers) +
              " layers, bf16 leaves"};
  const auto add = [&](const char* name, const std::vector<double>& seconds) {
    Row row{name, 0, elements_of(model.layout), {}};
    row.seconds = seconds;
    group.rows.push_back(std::move(row));
  };
  add(bare, found.bare);
  add(after, found.after);
  add(during, found.during);
  add(hidden, found.hidden);
  add(host, found.host);
  group.figures.push_back({"length of the backward pass", 1e3 * found.backward, 0, true, "ms"});
  group.figures.push_back({"communication that overlap leaves exposed",
                           exposed_buckets(found, model.shards.buckets().size()), 1.10, false, "buckets"});
  return group;
}

}  // namespace zeroproof::verification::bench
