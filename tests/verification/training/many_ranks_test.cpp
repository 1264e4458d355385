// Worlds much larger than this machine: ranks as threads, a synthetic model, the bits of one rank.

#include <doctest.h>

#include <sys/resource.h>

#include <chrono>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>

#include "common/comm/threads.hpp"
#include "cuda/distributed_optimizer.hpp"
#include "tests/verification/training/spread_buffer.hpp"
#include "tests/verification/training/synthetic_layers.hpp"

namespace many_ranks_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

/// About `numel` elements in `count` tensors of odd sizes, the last one of 7.
FlatLayout odd_layout(std::int64_t numel, std::int64_t count) {
  std::vector<ParamSpec> params;
  std::int64_t rest = numel - 7;
  for (std::int64_t t = 0; t + 1 < count; ++t) {
    const std::int64_t part = t + 2 == count ? rest : rest / (count - 1 - t) + (t % 3) * 5;
    params.push_back({"tensor" + std::to_string(t), {part}});
    rest -= part;
  }
  params.push_back({"last", {7}});
  return FlatLayout(params);
}

struct Settings {
  int world;
  int stage;
  std::int64_t micro_batches;
  std::int64_t steps;
  std::int64_t bucket_numel;
};

/// Masters after the steps, [padded_numel]; padding is +0.
std::vector<float> masters_after(const FlatLayout& layout, const Settings& settings) {
  const auto padded = static_cast<std::size_t>(layout.padded_numel());
  std::vector<float> first(padded), zeros(padded), result(padded);
  for (std::size_t i = 0; i < padded; ++i) first[i] = mixed(77, i);
  const ShardMap shards(layout.padded_numel(), settings.world, settings.bucket_numel);
  ThreadWorld world(settings.world, std::chrono::minutes(10));
  std::mutex mutex;
  run_ranks(world, [&](Communicator& comm) {
    OptimizerSetup setup;
    setup.layout = &layout;
    setup.shards = &shards;
    setup.comm = &comm;
    setup.stage = settings.stage;
    setup.micro_batches = settings.micro_batches;
    setup.hyper.max_norm = 0.5;
    const auto optimizer = cuda::make_distributed_optimizer(setup);
    FullState state;
    state.master = first;
    state.slots = {zeros, zeros};
    optimizer->load_state(state);
    for (std::int64_t step = 1; step <= settings.steps; ++step) {
      SyntheticLayers model(layout, step);
      optimizer->step(model);
    }
    for (const ExposedBuffer& buffer : optimizer->exposed(Phase::update)) {
      if (buffer.id != BufferId::master || (settings.stage == 0 && comm.rank() != 0)) continue;
      const std::lock_guard lock(mutex);
      spread(layout, buffer, result);
    }
  });
  return result;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

TEST_CASE(
    "many ranks: 64 in every stage, more ranks than chunks, fewer and more than micro-batches") {
  const FlatLayout layout = odd_layout(20'011, 6);
  for (const std::int64_t micro_batches : {37, 70}) {
    const std::vector<float> one = masters_after(layout, {1, 0, micro_batches, 2, 8192});
    for (int stage = 0; stage <= 3; ++stage) {
      CAPTURE(micro_batches);
      CAPTURE(stage);
      CHECK(same_bits(one, masters_after(layout, {64, stage, micro_batches, 2, 8192})));
    }
  }
}

TEST_CASE("slow: many ranks: 1,024 ranks, 2^20 + 7 elements, 1,024 micro-batches, at most 4 GiB") {
  const FlatLayout layout = odd_layout((std::int64_t{1} << 20) + 7, 80);
  const std::vector<float> one = masters_after(layout, {1, 2, 1024, 2, 32768});
  for (const int stage : {2, 3}) {
    const auto begin = std::chrono::steady_clock::now();
    CAPTURE(stage);
    CHECK(same_bits(one, masters_after(layout, {1024, stage, 1024, 2, 32768})));
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    MESSAGE("stage " << stage << ": " << seconds.count() << " s, largest resident size so far "
                     << usage.ru_maxrss / 1024 << " MiB");
    CHECK(usage.ru_maxrss <= 4L * 1024 * 1024);  // KiB
  }
}

}  // namespace many_ranks_test
