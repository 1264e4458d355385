#include "verification/bench/product/sweep.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "verification/bench/measure/rounds.hpp"
#include "verification/bench/product/product_step.hpp"
#include "verification/bench/product/twin_step.hpp"

namespace zeroproof::verification::bench {
namespace {

constexpr int steps_not_kept = 2;
constexpr int steps_kept = 3;

/// Returns whether the bits are the contract's, if they are to be compared.
bool take_steps(SweepPoint& point, WorkerTeam& team, bool compare) {
  const ProductCase& what = point.what;
  const FlatLayout layout = layout_of(what);
  Leaves leaves(what, layout.padded_numel());
  auto first = std::make_unique<TwinStep>(what, layout.padded_numel(), leaves, team);
  ProductStep step(what, layout, leaves, first->first_state());
  first.reset();
  for (int i = 0; i < steps_not_kept + steps_kept; ++i) {
    const auto start = std::chrono::steady_clock::now();
    step.step();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (i >= steps_not_kept) point.seconds.push_back(elapsed.count());
  }
  if (!compare) return true;
  return step.as_contract(contract_steps(
      {layout, what.micro_batches, what.num_leaves(), step.steps(), true, what.grad_dtype, what.threads}));
}

void run_axis(SweepAxis& axis, int passes, WorkerTeam& team, std::vector<Check>& checks) {
  for (const SweepPoint& point : axis.points) require_possible(point.what);  // before the long part
  bool same = true;
  for (int pass = 0; pass < passes; ++pass) {
    for (const std::size_t i : shuffled(axis.points.size(), static_cast<std::uint32_t>(pass)))
      same = take_steps(axis.points[i], team, pass == 0) && same;
  }
  std::vector<double> x, y;
  for (const SweepPoint& point : axis.points) {
    x.push_back(point.x);
    y.push_back(std::ranges::min(point.seconds));
  }
  axis.fit = fit_line(x, y);
  axis.residuals = residuals(axis.fit, x, y);
  checks.push_back({"product = contract along a sweep", same, axis.name});
}

}  // namespace

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
  return {std::move(params), std::move(tensors), std::move(leaves), std::move(buckets)};
}

Sweep run_sweep(std::vector<SweepAxis> axes, int passes, WorkerTeam& team) {
  Sweep sweep{std::move(axes), {}};
  for (SweepAxis& axis : sweep.axes) run_axis(axis, passes, team, sweep.checks);
  return sweep;
}

}  // namespace zeroproof::verification::bench
