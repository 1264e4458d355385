#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "common/base/error.hpp"
#include "common/comm/self.hpp"
#include "common/comm/threads.hpp"
#include "cuda/comm/memory/memory_space.hpp"
#include "cuda/device/runtime/device.hpp"
#include "cuda/device/runtime/graph.hpp"
#include "cuda/device/runtime/memory.hpp"
#include "cuda/device/runtime/timed_event.hpp"
#include "cuda/distributed_optimizer.hpp"
#include "cuda/enqueued_optimizer.hpp"
#include "cuda/host/fold_plan.hpp"
#include "cuda/reduce/sources/device_grad_source.hpp"
#include "cuda/reduce/sources/host_grad_source.hpp"
#include "verification/bench/device/kernel_data.hpp"
#include "verification/bench/device/rank_rows.hpp"
#include "verification/bench/device/steps.hpp"
#include "verification/bench/measurements.hpp"

namespace zeroproof::verification::bench {
namespace {

namespace device = cuda::device;

/// Seconds of the device for the work that body enqueues on the current stream.
double device_seconds(const std::function<void()>& body) {
  device::TimedEvent begin, end;
  begin.record();
  body();
  end.record();
  return seconds_between(begin, end);
}

Row pass(const std::string& name, double num_bytes, std::int64_t numel,
         std::vector<std::string> limits, std::function<void()> body) {
  return {name, num_bytes, numel, [body = std::move(body)] { return device_seconds(body); },
          std::move(limits)};
}

/// Loops that move the bytes of a pass, each in several forms of which the fastest is the limit.
/// Shapes: "R", "RW", "4R3W+W2"; with gradients "R2W4", "2xR2W4" and so on, up to the number in the
/// data.
void add_limit_rows(std::vector<Row>& rows, const KernelData& data) {
  const std::int64_t numel = data.numel();
  const auto add = [&](const std::string& shape, const std::string& form, double num_bytes,
                       std::function<void()> body) {
    rows.push_back(pass("limit " + shape + form, num_bytes, numel, {}, std::move(body)));
    rows.back().shape = shape;
  };
  for (const int unroll : unrolls) {
    const std::string form = " x" + std::to_string(unroll);
    add("R", form, 4,
        [&data, numel, unroll] { enqueue_read_loop(unroll, data.grad(), numel, data.sink()); });
    add("RW", form, 8,
        [&data, numel, unroll] { enqueue_copy_loop(unroll, data.grad(), data.scratch(), numel); });
    add("4R3W+W2", form, 30,
        [&data, numel, unroll] { enqueue_step_loop(unroll, data.access(), numel); });
    for (const int count : {1, 2, 4, 8}) {
      if (count > data.num_leaves()) continue;
      const std::string shape = count == 1 ? "R2W4" : std::to_string(count) + "xR2W4";
      add(shape, form, 2.0 * count + 4, [&data, numel, unroll, count] {
        enqueue_fold_loop(unroll, data.leaves(count), data.scratch(), numel);
      });
    }
  }
  add("RW", " copy of the runtime", 8,
      [&data, numel] { device::enqueue_on_device(data.scratch(), data.grad(), 4 * numel); });
}

/// The sums of one gradient, which must be equal in every round.
class SameSums {
 public:
  void see(const device::StepFound& found) {
    if (!first_) first_ = found;
    same_ = same_ && std::memcmp(found.sums, first_->sums, sizeof found.sums) == 0 &&
            found.found_inf == 0;
  }
  bool same() const { return first_ && same_; }

 private:
  std::optional<device::StepFound> first_;
  bool same_ = true;
};

/// A fold of this many gradients, as phase reduce enqueues it.
Row fold_row(const KernelData& data, const cuda::host::PieceLoop& loop, int count) {
  std::vector<TreeNode> nodes;
  std::vector<cuda::NodeValues> leaves;
  for (const std::uint16_t* leaf : data.leaves(count)) {
    nodes.push_back({0, static_cast<std::int64_t>(nodes.size())});
    leaves.push_back(
        cuda::NodeValues::flat({const_cast<std::uint16_t*>(leaf), DType::bf16, data.numel()}, 0));
  }
  const auto plan = std::make_shared<const cuda::host::FoldPlan>(nodes);
  const std::string number = std::to_string(count);
  return pass("fold of " + number, 2.0 * count + 4, data.numel(), {number + "xR2W4"},
              [&loop, &data, plan, leaves] {
                const cuda::NodeValues sum =
                    cuda::NodeValues::packed({data.scratch(), DType::fp32, data.numel()});
                cuda::device_space().fold(loop, *plan, leaves, sum);
              });
}

/// Kernels of a step by themselves, and the two passes as a graph.
Group measure_passes(std::int64_t numel, int rounds, Report& report) {
  constexpr std::uint32_t decide_all = device::decide_scalars | device::decide_scaler |
                                       device::decide_norm | device::decide_clip |
                                       device::decide_count;
  const KernelData data(numel, 8);
  const auto finite_norm = [&] { device::enqueue_finite_norm(data.memory(), data.rules()); };
  const auto update = [&] { device::enqueue_fused_update(data.memory(), data.rules()); };
  const device::Graph graph([&] {
    data.clear_found();
    finite_norm();
    device::enqueue_decide(data.memory(), data.rules(), decide_all, false);
    update();
  });
  const cuda::host::PieceLoop loop(data.layout().pieces({{0, data.layout().padded_numel()}}));
  const auto* grad = static_cast<const float*>(data.grad());
  const cuda::SpaceArray<float> sum(cuda::device_space(), 1);
  const std::size_t norm_bytes = unordered_norm_bytes(grad, sum.data(), numel);
  const cuda::SpaceArray<std::byte> norm_scratch(cuda::device_space(),
                                                 static_cast<std::int64_t>(norm_bytes));
  SameSums sums;
  Group group{"kernels, " + std::to_string(numel) + " elements of one tensor"};
  std::vector<Row>& rows = group.rows;
  add_limit_rows(rows, data);
  rows.push_back({"finite_norm",
                  4,
                  numel,
                  [&] {
                    data.clear_found();
                    const double seconds = device_seconds(finite_norm);
                    sums.see(data.found());
                    return seconds;
                  },
                  {"R"}});
  rows.push_back(pass("fused_update", 30, numel, {"4R3W+W2"}, update));
  rows.push_back({"two passes, graph",
                  34,
                  numel,
                  [&] {
                    const double seconds = device_seconds([&] { graph.launch(); });
                    sums.see(data.found());
                    return seconds;
                  },
                  {"R", "4R3W+W2"}});
  for (const int count : {2, 4, 8}) rows.push_back(fold_row(data, loop, count));
  if (norm_bytes > 0) {
    rows.push_back(pass("CUB, fp32 squares", 4, numel, {"R"}, [&] {
      enqueue_unordered_norm(grad, sum.data(), numel, norm_scratch.data(), norm_bytes);
    }));
  }
  measure(rows, rounds);
  report.check("finite_norm found the same sums in every round", sums.same(),
               std::to_string(numel));
  group.judge_limit("finite_norm, of the read limit's speed", "finite_norm", 0.90);
  group.judge("finite_norm, of CUB's unordered sum's time", "finite_norm", "CUB, fp32 squares",
              1.10, false);
  group.judge_limit("fused_update, of its loop's speed", "fused_update", 0.92);
  group.judge_limit("two passes by a graph, of 34 bytes' time", "two passes, graph", 1.08);
  for (const char* count : {"2", "4", "8"}) {
    const std::string fold = std::string("fold of ") + count;
    group.judge_limit(fold + ", of its loop's speed", fold, 0.90);
  }
  return group;
}

/// A single rank, its model and its gradient.
class OwnStep {
 public:
  OwnStep(std::int64_t tensors, std::int64_t numel, bool fused)
      : layout_(cut_into(tensors, numel)),
        shards_(layout_.padded_numel(), 1, layout_.padded_numel()),
        comm_(make_self_communicator()),
        optimizer_(
            cuda::make_enqueued_optimizer(device_setup(layout_, shards_, *comm_, 1), fused, fused)),
        leaf_(layout_),
        fused_(fused) {
    optimizer_->load_state(FirstState(layout_).view());
  }

  /// A row of steps: 16-bit gradient to G, G for the norm, and the bytes of the update.
  Row row(const std::string& name, int steps) {
    return {name,
            40,
            elements_of(layout_),
            [this, steps] { return device_seconds(steps); },
            {"R2W4", "R", "4R3W+W2"}};
  }

  /// One step more than are timed: the last one starts where the time ends.
  double device_seconds(int steps) {
    leaf_.mark(static_cast<std::size_t>(steps) + 1);
    for (int i = 0; i <= steps; ++i) step();
    if (fused_) optimizer_->wait();
    return leaf_.seconds_per_step();
  }

  /// Of the host, for one step that it enqueues.
  double host_seconds(int steps) {
    leaf_.mark(0);
    const double seconds = seconds_of([&] {
      for (int i = 0; i < steps; ++i) optimizer_->enqueue_step(leaf_);
    });
    optimizer_->wait();
    return seconds / steps;
  }

  Digest params() { return digest_of(*optimizer_, layout_, Phase::cast); }

 private:
  void step() {
    if (fused_) return optimizer_->enqueue_step(leaf_);
    optimizer_->step(leaf_);
  }

  const FlatLayout layout_;
  const ShardMap shards_;
  const std::unique_ptr<Communicator> comm_;
  const std::unique_ptr<cuda::EnqueuedOptimizer> optimizer_;
  FixedGrad leaf_;
  const bool fused_;
};

/// Steps through make_enqueued_optimizer, one rank: of one tensor, of 300, and in phases.
Group measure_steps(std::int64_t numel, int rounds, Report& report) {
  constexpr int steps = 4;
  const KernelData data(numel, 1);
  OwnStep one(1, numel, true), phases(1, numel, false), many(300, numel, true);
  Group group{"steps through make_enqueued_optimizer, one rank, " + std::to_string(numel) +
              " elements, bf16 leaves"};
  add_limit_rows(group.rows, data);
  group.rows.push_back(one.row("step, 1 tensor", steps));
  group.rows.push_back(many.row("step, 300 tensors", steps));
  group.rows.push_back(phases.row("step in phases, 1 tensor", steps));
  measure(group.rows, rounds);
  report.check("two passes in a graph = phases: parameters, after every round",
               one.params() == phases.params(), std::to_string(numel));
  group.judge_limit("step, of its 40 bytes' time", "step, 1 tensor", 1.08);
  group.judge("300 tensors, of one tensor's time", "step, 300 tensors", "step, 1 tensor", 1.03,
              false);
  group.judge("step in phases, of the step's time", "step in phases, 1 tensor", "step, 1 tensor",
              1.6, true);
  return group;
}

/// Host and device time of a step so small that memory time is negligible.
Group measure_small_step(std::int64_t numel, int rounds) {
  constexpr int steps = 32;  // fewer than may be enqueued ahead
  OwnStep step(1, numel, true);
  Group group{"a small step, " + std::to_string(numel) + " elements"};
  group.rows = {{"step, device", 40, numel, [&] { return step.device_seconds(steps); }},
                {"step, host", 0, numel, [&] { return step.host_seconds(steps); }}};
  measure(group.rows, rounds);
  group.figures = {
      {"host time of an enqueued step", 1e6 * median_of(group.rows[1].seconds), 20, false, "us"},
      {"device time of a step", 1e6 * median_of(group.rows[0].seconds), 30, false, "us"}};
  return group;
}

/// Whether a rank's steps on a device have the bits of the host's, on the same gradients. One step
/// in five overflows; the scale grows until it does not fit into fp16.
bool same_as_host(const FlatLayout& layout, Communicator& comm, int stage,
                  const std::vector<FlatRange>& units) {
  constexpr int steps = 12;
  constexpr cuda::GradFormula formula{.seed = 7, .overflow_every = 5, .overflow_element = 0};
  const ShardMap shards(layout.padded_numel(), comm.world_size(), 4096);
  OptimizerSetup setup = device_setup(layout, shards, comm, stage);
  setup.micro_batches = 3;
  setup.grad_dtype = DType::fp16;
  setup.scaler = {.kind = LossScalerKind::dynamic, .log2_initial = 15, .growth_interval = 2};
  const auto host = cuda::make_distributed_optimizer(setup);
  setup.overlap = !units.empty();
  const auto optimizer = cuda::make_enqueued_optimizer(setup);
  cuda::HostGradSource host_leaves(formula, layout, setup.grad_dtype,
                                   [&] { return host->loss_scaler().log2_scale; });
  cuda::DeviceGradSource leaves(formula, layout, setup.grad_dtype, optimizer->log2_loss_scale(), {},
                                units);
  const FirstState first(layout);
  FullState state = first.view();
  state.scaler = {15, 0, 1};
  host->load_state(state);
  optimizer->load_state(state);
  int skips = 0;
  for (int step = 0; step < steps; ++step) {
    host_leaves.set_step(step);
    leaves.set_step(step);
    if (!host->step(host_leaves)) ++skips;
    optimizer->enqueue_step(leaves);
  }
  const cuda::StepStatus status = optimizer->wait();
  bool same = status.scaler == host->loss_scaler() && status.applied_steps == host->applied_steps();
  for (const Phase phase : {Phase::update, Phase::cast})
    same = same && digest_of(*host, layout, phase) == digest_of(*optimizer, layout, phase);
  return same && skips >= 3 && skips < steps;
}

/// With a size for which the host makes the steps too: alone in a graph, and on several ranks over
/// layers.
void check_steps(Report& report) {
  const FlatLayout layout = cut_into(30, 30011);
  const auto self = make_self_communicator();
  report.check("steps by a graph on leaves of the device = the host's, overflows included",
               same_as_host(layout, *self, 1, {}));
  std::vector<FlatRange> units;
  for (std::size_t t = 0; t < layout.tensors().size(); ++t) {
    const bool last = t + 1 == layout.tensors().size();
    units.push_back(
        {layout.tensors()[t].begin, last ? layout.padded_numel() : layout.tensors()[t + 1].begin});
  }
  ThreadWorld world(2);
  bool same[2] = {};
  run_ranks(world,
            [&](Communicator& comm) { same[comm.rank()] = same_as_host(layout, comm, 2, units); });
  report.check("the same of two ranks over layers, overlapped, in stage 2", same[0] && same[1]);
}

}  // namespace

void measure_device(const Options& options, Report& report) {
  // Ranks that share a device have more streams than the 8 queues that CUDA makes of them by default, and in one queue
  // the communication of a rank would wait for the backward pass of another.
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  const device::DeviceInfo& info = device::device_info();
  ZP_CHECK(info.answers, ErrorCode::unavailable, "nothing was measured: no device answers",
           info.detail, "run this where there is a GPU, or zeroproof-bench-sim");
  const bool simulated = info.detail.rfind("simulated", 0) == 0;
  report["device"] = info.detail;
  report["simulated"] = simulated;
  report.say(info.detail);
  if (simulated) report.say("a simulated device: bits mean something, times do not");
  std::fputs("zeroproof-bench: bits\n", stderr);
  check_steps(report);
  const int rounds = options.rounds;
  const auto add = [&](const char* rows, const std::string& what, std::int64_t numel,
                       const std::function<Group()>& measured) {
    if (std::ranges::find(options.rows, rows) == options.rows.end()) return;
    const std::string title = what + ", " + std::to_string(numel) + " elements";
    std::fprintf(stderr, "zeroproof-bench: %s\n", title.c_str());
    Group group;
    try {
      group = measured();
    } catch (const Error& error) {  // a group that does not fit in memory does not end the others
      if (error.code() != ErrorCode::unavailable) throw;
      group.title = title;
      group.missing = error.what();
    }
    report.add(group, true, !simulated);
  };
  for (const std::int64_t numel : options.numel) {
    add("kernels", "kernels", numel, [&] { return measure_passes(numel, rounds, report); });
    add("steps", "steps", numel, [&] { return measure_steps(numel, rounds, report); });
  }
  add("small", "a small step", options.small_numel,
      [&] { return measure_small_step(options.small_numel, rounds); });
  for (const int ranks : options.ranks) {
    add("ranks", std::to_string(ranks) + " ranks", options.rank_numel,
        [&] { return measure_device_ranks(options.rank_numel, ranks, rounds); });
  }
}

}  // namespace zeroproof::verification::bench
