#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "common/comm/threads.hpp"
#include "cuda/enqueued_optimizer.hpp"
#include "cuda/reduce/sources/device_grad_source.hpp"
#include "verification/bench/device/rank_rows.hpp"
#include "verification/bench/device/steps.hpp"

namespace zeroproof::verification::bench {
namespace {

constexpr int layers = 16;
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
    OptimizerSetup setup = device_setup(model.layout, model.shards, comm, 2);
    setup.overlap = overlap;
    optimizer_ = cuda::make_enqueued_optimizer(setup);
    optimizer_->load_state(FirstState(model.layout).view());
  }

  cuda::DeviceGradSource leaves(double ns_per_element) const {
    return {
        {},          model_.layout, DType::bf16, optimizer_->log2_loss_scale(), {0, ns_per_element},
        model_.units};
  }

  /// Seconds from the moment when every rank is ready to the end of all of them. The host waits for
  /// the device before and after.
  double sample(GradSource& leaves) {
    optimizer_->run_phase(Phase::prepare, leaves);
    meet();
    const double took = seconds_of([&] {
      host_seconds_ = seconds_of([&] { optimizer_->run_phase(Phase::reduce, leaves); });
      meet();
    });
    for (const Phase phase : all_phases) {
      if (phase == Phase::prepare || phase == Phase::reduce) continue;
      if (!skipped_on_overflow(phase) || !optimizer_->skipped())
        optimizer_->run_phase(phase, leaves);
    }
    return took;
  }

  /// Of the host, until the last sample's phase was enqueued.
  double host_seconds() const { return host_seconds_; }

 private:
  void meet() {
    static_cast<void>(optimizer_->loss_scaler());  // reads the device, after all enqueued work
    comm_.barrier();
  }

  const Model& model_;
  Communicator& comm_;
  std::unique_ptr<cuda::EnqueuedOptimizer> optimizer_;
  double host_seconds_ = 0;
};

/// A backward pass that takes twice the time of the communication, by every rank's clock.
double chosen_pace(RankReduce& reduce, cuda::DeviceGradSource& leaves, const Model& model,
                   Communicator& comm) {
  std::vector<double> seconds;
  for (int i = 0; i < 4; ++i) seconds.push_back(reduce.sample(leaves));
  seconds.erase(seconds.begin());
  std::uint64_t nanoseconds = static_cast<std::uint64_t>(1e9 * median_of(seconds));
  comm.all_reduce({&nanoseconds, 1}, IntegerReduce::max);
  return 2.0 * static_cast<double>(nanoseconds) / static_cast<double>(model.layout.padded_numel());
}

/// Rows of a rank, and the seconds that the pace gives its backward pass.
std::vector<Row> run_rank(const Model& model, Communicator& comm, int rounds, double& backward) {
  RankReduce serial(model, comm, false), overlapped(model, comm, true);
  cuda::DeviceGradSource at_once = serial.leaves(0), overlapped_at_once = overlapped.leaves(0);
  const double pace = chosen_pace(serial, at_once, model, comm);
  cuda::DeviceGradSource serial_leaves = serial.leaves(pace),
                         overlapped_leaves = overlapped.leaves(pace);
  backward = 1e-9 * static_cast<double>(serial_leaves.length());
  const std::int64_t numel = elements_of(model.layout);
  std::vector<double> host_seconds;
  std::vector<Row> rows = {
      {"reduce, no backward pass", 0, numel, [&] { return serial.sample(at_once); }},
      {"reduce after the backward pass", 0, numel, [&] { return serial.sample(serial_leaves); }},
      {"reduce during the backward pass", 0, numel,
       [&] {
         const double seconds = overlapped.sample(overlapped_leaves);
         host_seconds.push_back(overlapped.host_seconds());
         return seconds;
       }},
      {"reduce overlapped, no backward pass", 0, numel,
       [&] { return overlapped.sample(overlapped_at_once); }}};
  measure(rows, rounds);
  Row& enqueued = rows.emplace_back();
  enqueued.name = "reduce during it, until enqueued";
  enqueued.numel = numel;
  enqueued.seconds.assign(host_seconds.begin() + 1, host_seconds.end());
  return rows;
}

/// The communication that overlap leaves exposed, in buckets' worth of it, round by round.
double exposed_buckets(const Row& after, const Row& during, double backward,
                       std::size_t num_buckets) {
  std::vector<double> buckets;
  for (std::size_t i = 0; i < during.seconds.size(); ++i) {
    const double whole = after.seconds[i] - backward, seen = during.seconds[i] - backward;
    buckets.push_back(whole > 0 ? seen / whole * num_buckets
                                : std::numeric_limits<double>::infinity());
  }
  return median_of(buckets);
}

}  // namespace

Group measure_device_ranks(std::int64_t numel, int ranks, int rounds) {
  const Model model(numel, ranks);
  ThreadWorld world(ranks);
  Group group{std::to_string(ranks) + " ranks by copies, stage 2, " +
              std::to_string(elements_of(model.layout)) + " elements in " + std::to_string(layers) +
              " layers, bf16 leaves"};
  double backward = 0;
  run_ranks(world, [&](Communicator& comm) {
    double mine = 0;
    std::vector<Row> rows = run_rank(model, comm, rounds, mine);
    if (comm.rank() > 0) return;
    backward = mine;
    group.rows = std::move(rows);
  });
  group.figures.push_back({"length of the backward pass", 1e3 * backward, 0, true, "ms"});
  group.figures.push_back(
      {"communication that overlap leaves exposed",
       exposed_buckets(group.rows[1], group.rows[2], backward, model.shards.buckets().size()), 1.10,
       false, "buckets"});
  return group;
}

}  // namespace zeroproof::verification::bench
