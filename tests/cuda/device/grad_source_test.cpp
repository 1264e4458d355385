// Gradients computed by a kernel under the device's loss scale: the bits of the host's gradients,
// and whole steps with them.

#include <doctest.h>

#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "cuda/device/runtime/device.hpp"
#include "cuda/device/runtime/runtime.hpp"
#include "cuda/device/runtime/timed_event.hpp"
#include "cuda/distributed_optimizer.hpp"
#include "cuda/enqueued_optimizer.hpp"
#include "cuda/reduce/sources/device_grad_source.hpp"
#include "cuda/reduce/sources/fill_grad.hpp"
#include "cuda/reduce/sources/host_grad_source.hpp"
#include "tests/cuda/expect_error.hpp"
#include "tests/support/grid.hpp"

namespace grad_source_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::cuda;
using namespace zeroproof::tests;

const FlatLayout& layout() {
  static const FlatLayout odd(
      {{"a", {1500}}, {"none", {0}}, {"b", {3, 1001}}, {"one", {}}, {"c", {2048}}});
  return odd;
}

/// One unit for every tensor but the first two, which share one.
std::vector<FlatRange> units() {
  const std::vector<TensorSlot>& tensors = layout().tensors();
  return {{0, tensors[2].begin},
          {tensors[2].begin, tensors[3].begin},
          {tensors[3].begin, tensors[4].begin},
          {tensors[4].begin, layout().padded_numel()}};
}

GradFormula formula() { return {.seed = 5, .overflow_every = 5, .overflow_element = 1499}; }

/// Host copy of a view in device memory.
std::vector<std::byte> fetched(const TensorView& view) {
  std::vector<std::byte> bytes(view.num_bytes());
  device::stage_to_host(bytes.data(), view.data, view.num_bytes());
  device::wait_for_stream();
  return bytes;
}

/// Three ranks have four micro-batches; the scale doubles every second step until fp16 overflows.
OptimizerSetup setup_for(const GridPlace& place, const ShardMap& shards, int stage) {
  OptimizerSetup setup;
  setup.layout = &layout();
  setup.shards = &shards;
  setup.comm = place.comm;
  setup.stage = stage;
  setup.micro_batches = 4;
  setup.grad_dtype = DType::fp16;
  setup.param_dtype = DType::fp16;
  setup.hyper.max_norm = 0.5;
  setup.hyper.lr = 0.01;
  setup.scaler.kind = LossScalerKind::dynamic;
  setup.scaler.growth_interval = 2;
  setup.scaler.log2_initial = 15;
  return setup;
}

std::string difference(const std::vector<ExposedBuffer>& ours,
                       const std::vector<ExposedBuffer>& theirs) {
  if (ours.size() != theirs.size()) return "another number of buffers";
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const std::int64_t width = num_bytes(ours[i].view.dtype);
    std::vector<Piece> pieces = {{0, 0, 0, 0, ours[i].view.numel}};
    if (!ours[i].ranges.empty()) pieces = layout().pieces(ours[i].ranges);
    for (const Piece& piece : pieces) {
      const auto at = [&](const ExposedBuffer& buffer) {
        return static_cast<const std::byte*>(buffer.view.data) + piece.local_begin * width;
      };
      if (std::memcmp(at(ours[i]), at(theirs[i]), static_cast<std::size_t>(piece.numel * width)) !=
          0)
        return "buffer " + std::to_string(static_cast<int>(ours[i].id)) + " at " +
               std::to_string(piece.global_begin);
    }
  }
  return "";
}

/// Results of one rank.
struct Seen {
  std::string difference;
  int growths = 0;
  int skips = 0;
};

Seen run_steps(const GridPlace& place, int stage, bool layers) {
  const ShardMap shards(layout().padded_numel(), 3, 2048);
  OptimizerSetup setup = setup_for(place, shards, stage);
  const auto on_host = make_distributed_optimizer(setup);
  setup.overlap = layers;
  const auto optimizer = make_enqueued_optimizer(setup);
  HostGradSource host(formula(), layout(), setup.grad_dtype,
                      [&] { return on_host->loss_scaler().log2_scale; });
  DeviceGradSource leaves(formula(), layout(), setup.grad_dtype, optimizer->log2_loss_scale(), {},
                          layers ? units() : std::vector<FlatRange>{});
  const std::vector<float> ones(layout().padded_numel(), 1.0F);
  FullState state;
  state.master = ones;
  state.slots = {ones, ones};
  state.scaler = {15, 0, 1};
  on_host->load_state(state);
  optimizer->load_state(state);
  Seen seen;
  for (int step = 0; step < 12; ++step) {
    host.set_step(step);
    leaves.set_step(step);
    const std::int32_t before = on_host->loss_scaler().log2_scale;
    if (!on_host->step(host)) ++seen.skips;
    if (on_host->loss_scaler().log2_scale > before) ++seen.growths;
    optimizer->enqueue_step(leaves);
  }
  const StepStatus status = optimizer->wait();
  if (status.scaler != on_host->loss_scaler()) seen.difference = "the loss scaler";
  if (status.applied_steps != on_host->applied_steps()) seen.difference = "the applied steps";
  for (const Phase phase : {Phase::update, Phase::cast}) {
    const std::string found = difference(on_host->exposed(phase), optimizer->exposed(phase));
    if (!found.empty()) seen.difference = found;
  }
  return seen;
}

}  // namespace

TEST_CASE("device gradients: the bits of the host's, whole and in part, at every loss scale") {
  if (!device::device_info().answers) return;
  const std::int64_t numel = layout().padded_numel();
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    for (const std::int32_t log2_scale : {-126, -20, 0, 15, 17, 127}) {
      CAPTURE(static_cast<int>(dtype));
      CAPTURE(log2_scale);
      const SpaceArray<std::int32_t> scale(device_space(), 1);
      scale.write(log2_scale);
      HostGradSource host(formula(), layout(), dtype, [&] { return log2_scale; });
      DeviceGradSource leaves(formula(), layout(), dtype, scale.data());
      for (const std::int64_t step : {0, 4}) {  // the latter overflows
        host.set_step(step);
        leaves.set_step(step);
        for (const std::int64_t micro_batch : {0, 3}) {
          const TensorView want = host.micro_batch_grad(micro_batch);
          const std::vector<std::byte> got = fetched(leaves.micro_batch_grad(micro_batch));
          CHECK(std::memcmp(got.data(), want.data, got.size()) == 0);
          // A part with any begin and an unaligned target.
          const SpaceArray<std::byte> target(device_space(), numel * 4);
          const std::int64_t width = num_bytes(dtype);
          const TensorView part{target.data() + width, dtype, 701};
          device::enqueue_leaf(formula(), step, micro_batch, 1022, scale.data(), part);
          const std::vector<std::byte> got_part = fetched(part);
          CHECK(std::memcmp(got_part.data(),
                            static_cast<const std::byte*>(want.data) + 1022 * width,
                            got_part.size()) == 0);
        }
      }
    }
  }
}

TEST_CASE(
    "device gradients: steps of every stage are the host's, through growth, overflow and skip") {
  if (!device::device_info().answers) return;
  for (const int stage : {0, 1, 2, 3}) {
    for (const bool layers : {false, true}) {
      CAPTURE(stage);
      CAPTURE(layers);
      std::vector<Seen> seen(3);
      run_grid({1, 3},
               [&](const GridPlace& place) { seen[place.rank] = run_steps(place, stage, layers); });
      for (const Seen& one : seen) {
        CHECK(one.difference == "");
        CHECK(one.growths >= 2);
        CHECK(one.skips >= 3);  // steps 4 and 9, and where the scale has grown past fp16
      }
    }
  }
}

TEST_CASE("device gradients: a visit lasts for its given time") {
  if (!device::device_info().answers) return;
  const SpaceArray<std::int32_t> scale(device_space(), 1);
  scale.write(0);
  DeviceGradSource leaves(formula(), layout(), DType::bf16, scale.data(), {1000, 2000}, units());
  const std::int64_t numel = layout().padded_numel();
  CHECK(leaves.length() == 3000 * numel);
  const SpaceArray<std::byte> grad(device_space(), 2 * numel);
  LayeredModel& model = *leaves.layers();
  CHECK(model.visits().size() == 4);
  device_space().wait();
  const auto begin = std::chrono::steady_clock::now();
  device::TimedEvent first, last;
  expect_error(ErrorCode::invalid_argument, [&] { device::seconds_between(first, last); });
  first.record();
  model.begin(0);
  model.backward(1, {}, {grad.data(), DType::bf16, units()[1].numel()});
  last.record();
  const double seconds = device::seconds_between(first, last);
  const auto took = std::chrono::steady_clock::now() - begin;
  CHECK(seconds >= 1990e-9 * static_cast<double>(units()[1].numel()));
  CHECK(seconds <= std::chrono::duration<double>(took).count() * 1.01);
  expect_error(ErrorCode::internal, [&] { const device::Graph graph([&] { first.record(); }); });
  CHECK(took >= std::chrono::nanoseconds(1990 * units()[1].numel()));  // the clocks differ
  expect_error(ErrorCode::invalid_argument, [&] { device::enqueue_until(nullptr, -1); });
  expect_error(ErrorCode::invalid_argument,
               [&] { device::enqueue_until(nullptr, device::most_nanoseconds + 1); });
  expect_error(ErrorCode::invalid_argument, [&] {
    device::enqueue_leaf({}, 0, 0, 0, scale.data(), {grad.data(), DType::u32, 1});
  });
}

}  // namespace grad_source_test
