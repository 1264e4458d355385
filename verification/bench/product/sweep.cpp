#include "verification/bench/product/sweep.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <utility>

#include "common/comm/self.hpp"
#include "common/comm/threads.hpp"
#include "verification/bench/measure/machine.hpp"
#include "verification/bench/measure/memory_probe.hpp"
#include "verification/bench/measure/rounds.hpp"
#include "verification/bench/product/product_step.hpp"
#include "verification/bench/product/twin_step.hpp"

namespace zeroproof::verification::bench {
namespace {

constexpr int steps_not_kept = 2;
constexpr int steps_kept = 5;

/// The ranks of one visit to a point.
class Visit {
 public:
  Visit(SweepPoint& point, WorkerTeam& team, MemoryProbe& probe, bool compare)
      : point_(point),
        what_(point.what),
        layout_(layout_of(what_)),
        leaves_(what_, layout_.padded_numel()),
        first_(std::make_unique<TwinStep>(what_, layout_.padded_numel(), leaves_, team)),
        probe_(probe),
        compare_(compare) {}

  void work(Communicator& comm) {
    ProductStep step(what_, layout_, leaves_, first_->first_state(), comm);
    comm.barrier();
    if (comm.rank() == 0) first_.reset();
    for (int i = 0; i < steps_not_kept; ++i) step.step();
    double before = comm.rank() == 0 ? probe_.seconds() : 0;
    for (int i = 0; i < steps_kept; ++i) {
      comm.barrier();
      const auto start = std::chrono::steady_clock::now();
      step.step();
      comm.barrier();
      if (comm.rank() != 0) continue;
      const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
      const double after = probe_.seconds();
      point_.seconds.push_back(elapsed.count());
      point_.probe_seconds.push_back((before + after) / 2);
      before = after;
    }
    if (!compare_) return;
    if (comm.rank() == 0) {
      wanted_ = std::make_unique<ContractResult>(
          contract_steps({layout_, what_.micro_batches, what_.num_leaves(), step.steps(), true,
                          what_.grad_dtype, what_.threads}));
    }
    comm.barrier();
    if (!step.as_contract(*wanted_)) same_ = false;
  }

  /// Whether the bits are the contract's on every rank; true if they were not to be compared.
  bool same() const { return same_; }

 private:
  SweepPoint& point_;
  const ProductCase& what_;
  FlatLayout layout_;
  Leaves leaves_;
  std::unique_ptr<TwinStep> first_;
  MemoryProbe& probe_;
  bool compare_;
  std::unique_ptr<ContractResult> wanted_;
  std::atomic<bool> same_ = true;
};

/// Returns whether the bits are the contract's, if they are to be compared.
bool take_steps(SweepPoint& point, WorkerTeam& team, MemoryProbe& probe, bool compare) {
  Visit visit(point, team, probe, compare);
  if (point.what.ranks == 1) {
    visit.work(*make_self_communicator());
  } else {
    ThreadWorld world(point.what.ranks);
    run_ranks(world, [&](Communicator& comm) { visit.work(comm); });
  }
  return visit.same();
}

void run_axis(SweepAxis& axis, int passes, WorkerTeam& team, MemoryProbe& probe, std::vector<Check>& checks) {
  for (const SweepPoint& point : axis.points) require_possible(point.what);  // before the long part
  bool same = true;
  for (int pass = 0; pass < passes; ++pass) {
    for (const std::size_t i : shuffled(axis.points.size(), static_cast<std::uint32_t>(pass)))
      same = take_steps(axis.points[i], team, probe, pass == 0) && same;
  }
  std::vector<double> speeds, x, y;
  for (const SweepPoint& point : axis.points)
    speeds.insert(speeds.end(), point.probe_seconds.begin(), point.probe_seconds.end());
  const double usual = median_of(speeds);
  for (SweepPoint& point : axis.points) {
    x.push_back(point.x);
    y.push_back(point.settle(usual));
  }
  axis.fit = fit_line(x, y);
  axis.residuals = residuals(axis.fit, x, y);
  checks.push_back({"product = contract along a sweep", same, axis.name});
}

}  // namespace

double SweepPoint::settle(double usual_probe) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < seconds.size(); ++i) ratios.push_back(seconds[i] / probe_seconds[i]);
  settled = median_of(ratios) * usual_probe;
  return settled;
}

std::vector<SweepAxis> sweep_axes(std::int64_t numel, std::int64_t bucket_numel, int threads) {
  const ProductCase base{1, 1, 0, DType::fp32, numel, bucket_numel, threads};
  const std::int64_t quarter = std::max<std::int64_t>(numel / 4, 1);
  SweepAxis params{"parameters", "1 tensor, M = 1", {}};
  for (const std::int64_t times : {1, 2, 4, 8, 16}) {
    ProductCase what = base;
    what.numel = quarter * times;
    params.points.push_back({what, static_cast<double>(what.numel)});
  }
  const std::int64_t sum = quarter * 25;
  SweepAxis tensors{"tensors", "M = 1, " + std::to_string(sum) + " parameters", {}};
  for (const std::int64_t count : {1, 16, 256, 4096, 16384, 102400}) {
    if (count > 1 && sum / count < layout_alignment) continue;  // more padding than parameters
    ProductCase what = base;
    what.numel = sum;
    what.tensors = count;
    tensors.points.push_back({what, static_cast<double>(count)});
  }
  SweepAxis leaves{"micro-batches", "1 tensor, " + std::to_string(numel) + " parameters", {}};
  for (const std::int64_t count : {1, 2, 4, 8, 16, 32, 64}) {
    ProductCase what = base;
    what.micro_batches = count;
    leaves.points.push_back({what, static_cast<double>(count)});
  }
  SweepAxis buckets{"buckets", "1 tensor, M = 1, " + std::to_string(numel) + " parameters", {}};
  for (const std::int64_t size : {4096, 16384, 65536, 262144, 1048576, 4194304, 16777216}) {
    if (size > numel) continue;
    ProductCase what = base;
    what.bucket_numel = size;
    buckets.points.push_back({what, static_cast<double>((numel + size - 1) / size)});
  }
  // From as many ranks as there are cores: fewer leave some of them idle.
  SweepAxis ranks{
      "ranks", "1 tensor, " + std::to_string(numel) + " parameters, one micro-batch each, windows", {}};
  const int cores = std::max(this_machine().cores, 2);
  for (const int times : {1, 2, 3, 4, 6, 8}) {
    ProductCase what = base;
    what.ranks = what.micro_batches = cores * times;
    what.threads = 1;
    ranks.points.push_back({what, static_cast<double>(what.ranks)});
  }
  return {std::move(params), std::move(tensors), std::move(leaves), std::move(buckets), std::move(ranks)};
}

Sweep run_sweep(std::vector<SweepAxis> axes, int passes, WorkerTeam& team) {
  Sweep sweep{std::move(axes), {}};
  MemoryProbe probe(team);
  for (SweepAxis& axis : sweep.axes) run_axis(axis, passes, team, probe, sweep.checks);
  return sweep;
}

}  // namespace zeroproof::verification::bench
