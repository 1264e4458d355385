#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "common/comm/self.hpp"
#include "common/comm/threads.hpp"
#include "verification/bench/limit_loops.hpp"
#include "verification/bench/line_fit.hpp"
#include "verification/bench/machine.hpp"
#include "verification/bench/measurements.hpp"
#include "verification/bench/product_step.hpp"
#include "verification/bench/values.hpp"

namespace zeroproof::verification::bench {
namespace {

constexpr int steps_not_kept = 2;
constexpr int steps_kept = 5;

/// The current speed of memory: other work on the machine lasts from milliseconds to minutes, and
/// slows the step between two probes as it slows the probes.
class MemoryProbe {
 public:
  explicit MemoryProbe(WorkerTeam& team) : team_(team) {
    for (const auto* buffer : {&sum_, &added_}) std::ranges::fill(buffer->span(), 1.0F);
    seconds();
  }

  /// Of one pass over two buffers of 32 MiB: 12 bytes for each of `numel` elements.
  double seconds() {
    return seconds_of([this] {
      team_.run(numel,
                [this](std::int64_t begin, std::int64_t end) { loop_(buffers_, begin, end); });
    });
  }

 private:
  static constexpr std::int64_t numel = std::int64_t{1} << 23;
  WorkerTeam& team_;
  const LimitLoop& loop_ = limit_loop("2R1W");
  const HugeBuffer<float> sum_{numel}, added_{numel};
  const LimitBuffers buffers_{.grad = added_.data(), .work = sum_.data()};
};

struct Point {
  ProductCase what;
  std::int64_t x = 0;                ///< parameters, tensors, micro-batches, buckets or ranks
  std::vector<double> seconds = {};  ///< of each step
  std::vector<double> probes = {};   ///< seconds of the memory probes around it
};

struct Axis {
  std::string name;   ///< "tensors"
  std::string fixed;  ///< common settings of all points
  std::vector<Point> points = {};

  void add(const ProductCase& what, std::int64_t x) { points.push_back({what, x}); }
};

/// The axes around a number of parameters. The sum of the tensors axis is 25/4 of it, so that
/// 102,400 tensors of a chunk make up 16 Mi * 25/4. Points that are impossible for a small number
/// are left out.
std::vector<Axis> sweep_axes(const Options& options) {
  const std::int64_t numel = options.numel.front(), quarter = std::max<std::int64_t>(numel / 4, 1);
  const ProductCase base{
      .numel = numel, .bucket_numel = options.bucket_numel, .threads = options.threads};
  const std::string count = std::to_string(numel) + " parameters";
  ProductCase what = base;
  Axis params{"parameters", "1 tensor, M = 1"};
  for (const std::int64_t times : {1, 2, 4, 8, 16}) {
    what.numel = quarter * times;
    params.add(what, what.numel);
  }
  what.numel = quarter * 25;
  Axis tensors{"tensors", "M = 1, " + std::to_string(what.numel) + " parameters"};
  for (const std::int64_t number : {1, 16, 256, 4096, 16384, 102400}) {
    if (number > 1 && what.numel / number < layout_alignment)
      continue;  // more padding than parameters
    what.tensors = number;
    tensors.add(what, number);
  }
  what = base;
  Axis leaves{"micro-batches", "1 tensor, " + count};
  for (const std::int64_t number : {1, 2, 4, 8, 16, 32, 64}) {
    what.micro_batches = number;
    leaves.add(what, number);
  }
  what = base;
  Axis buckets{"buckets", "1 tensor, M = 1, " + count};
  for (const std::int64_t size : {4096, 16384, 65536, 262144, 1048576, 4194304, 16777216}) {
    if (size > numel) continue;
    what.bucket_numel = size;
    buckets.add(what, (numel + size - 1) / size);
  }
  // At least as many ranks as cores: with fewer some cores are idle.
  Axis ranks{"ranks", "1 tensor, " + count + ", one micro-batch each, windows"};
  what = base;
  for (const int times : {1, 2, 3, 4, 6, 8}) {
    what.ranks = std::max(this_machine().cores, 2) * times;
    what.micro_batches = what.ranks;
    what.threads = 1;
    ranks.add(what, what.ranks);
  }
  return {std::move(params), std::move(tensors), std::move(leaves), std::move(buckets),
          std::move(ranks)};
}

/// The ranks of one visit to a point: an optimizer that makes two steps without measurement and
/// five with it.
class Visit {
 public:
  Visit(Point& point, MemoryProbe& probe, bool compare)
      : point_(point),
        layout_(layout_of(point.what)),
        leaves_(point.what, layout_.padded_numel()),
        first_(std::make_unique<State>(0, layout_.padded_numel())),
        probe_(probe),
        compare_(compare) {}

  void work(Communicator& comm) {
    const ProductCase& what = point_.what;
    ProductStep step(what, layout_, leaves_, first_->full(), comm);
    comm.barrier();
    if (comm.rank() == 0) first_.reset();
    for (int i = 0; i < steps_not_kept; ++i) step.step();
    double before = comm.rank() == 0 ? probe_.seconds() : 0;
    for (int i = 0; i < steps_kept; ++i) {
      comm.barrier();
      const double seconds = seconds_of([&] {
        step.step();
        comm.barrier();
      });
      if (comm.rank() != 0) continue;
      const double after = probe_.seconds();
      point_.seconds.push_back(seconds);
      point_.probes.push_back((std::exchange(before, after) + after) / 2);
    }
    if (!compare_) return;
    if (comm.rank() == 0) {
      wanted_ = contract_steps({layout_, what.micro_batches, what.num_leaves(), step.steps(),
                                what.grad_dtype, what.threads});
    }
    comm.barrier();
    if (!step.as_contract(wanted_)) same_ = false;
  }

  /// Whether the bits are the contract's on every rank; true if they were not compared.
  bool same() const { return same_; }

 private:
  Point& point_;
  FlatLayout layout_;
  Leaves leaves_;
  std::unique_ptr<State> first_;
  MemoryProbe& probe_;
  bool compare_;
  ContractResult wanted_;
  std::atomic<bool> same_ = true;
};

bool visit(Point& point, MemoryProbe& probe, bool compare) {
  Visit visit(point, probe, compare);
  if (point.what.ranks == 1) {
    visit.work(*make_self_communicator());
  } else {
    ThreadWorld world(point.what.ranks);
    run_ranks(world, [&](Communicator& comm) { visit.work(comm); });
  }
  return visit.same();
}

Json axis_value(const Axis& axis) {
  std::vector<double> probes, x, y;
  for (const Point& point : axis.points)
    probes.insert(probes.end(), point.probes.begin(), point.probes.end());
  for (const Point& point : axis.points) {
    x.push_back(point.x);
    y.push_back(median_of(quotients(point.seconds, point.probes)) * median_of(probes));
  }
  const LineFit fit = fit_line(x, y);
  const std::vector<double> away = residuals(fit, x, y);
  Json points = Json::array();
  for (std::size_t i = 0; i < axis.points.size(); ++i) {
    const Point& point = axis.points[i];
    points.push_back({{"micro_batches", point.what.micro_batches},
                      {"tensors", point.what.tensors},
                      {"stage", point.what.stage},
                      {"grad_dtype", name(point.what.grad_dtype)},
                      {"numel", point.what.numel},
                      {"bucket_numel", point.what.bucket_numel},
                      {"ranks", point.what.ranks},
                      {"x", point.x},
                      {"best_s", std::ranges::min(point.seconds)},
                      {"median_s", median_of(point.seconds)},
                      {"samples_s", point.seconds},
                      {"probe_samples_s", point.probes},
                      {"settled_s", y[i]},
                      {"fit_s", fit.at(x[i])},
                      {"residual", away[i]}});
  }
  return {{"axis", axis.name},    {"fixed", axis.fixed},           {"intercept_s", fit.intercept},
          {"slope_s", fit.slope}, {"worst_residual", worst(away)}, {"points", std::move(points)}};
}

}  // namespace

void measure_sweep(const Options& options, Report& report) {
  WorkerTeam team(options.threads);
  MemoryProbe probe(team);
  report.say(
      "the product's step, fused, stage 0, fp32 gradients; a pass has 5 steps of each point, in "
      "another "
      "order");
  report.say(
      "ms: median of step / a pass over memory beside it, at the usual speed of that pass\n");
  Json sweep = Json::array();
  for (Axis& axis : sweep_axes(options)) {
    for (const Point& point : axis.points) require_possible(point.what);  // before the long part
    bool same = true;
    for (int pass = 0; pass < options.rounds; ++pass) {
      for (const std::size_t i : shuffled(axis.points.size(), pass))
        same = visit(axis.points[i], probe, pass == 0) && same;
    }
    report.check("product = contract along a sweep", same, axis.name);
    sweep.push_back(axis_value(axis));
    report.say(axis.name + ": " + axis.fixed);
    report.say(Report::table(sweep.back()["points"], {{axis.name.c_str(), "x"},
                                                      {"ms", "settled_s", 1e3},
                                                      {"line", "fit_s", 1e3},
                                                      {"residual, %", "residual", 100}}));
  }
  report.add("sweep", std::move(sweep),
             {{"line", "axis"},
              {"start, ms", "intercept_s", 1e3},
              {"slope, ns each", "slope_s", 1e9},
              {"worst residual, %", "worst_residual", 100}});
}

}  // namespace zeroproof::verification::bench
