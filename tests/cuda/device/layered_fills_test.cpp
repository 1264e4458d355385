// Fills of memory in a layer-by-layer pass. Runs on a GPU and, in tests/cuda/device/sim, on the
// simulated device.

#include <doctest.h>

#include <cstdint>
#include <vector>

#include "common/comm/self.hpp"
#include "cuda/device/runtime/device.hpp"
#include "cuda/device/runtime/runtime.hpp"
#include "cuda/optimizer/layered/layered_pass.hpp"
#include "cuda/optimizer/overlap/stream_executor.hpp"

namespace layered_fills_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::cuda;

/// Units of one tensor each, whose gradients are never written.
class IdleModel final : public LayeredModel {
 public:
  explicit IdleModel(const FlatLayout& layout) {
    for (const TensorSlot& tensor : layout.tensors()) {
      visits_.push_back(static_cast<int>(units_.size()));
      if (!units_.empty()) units_.back().end = tensor.begin;
      units_.push_back({tensor.begin, layout.padded_numel()});
    }
  }
  const std::vector<FlatRange>& units() const override { return units_; }
  const std::vector<int>& visits() const override { return visits_; }
  void begin(std::int64_t) override {}
  void forward(int, const TensorView&) override {}
  void backward(int, const TensorView&, const TensorView&) override {}

 private:
  std::vector<FlatRange> units_;
  std::vector<int> visits_;
};

class NoSink final : public BucketSink {
 public:
  void reduce(std::size_t, std::int64_t, const TensorView&) override {}
};

/// Copies and fills of a pass in stage 2.
std::int64_t moves_of_pass(bool guards) {
  const FlatLayout layout({{"a", {1500}}, {"b", {3000}}, {"c", {700}}});
  const ShardMap shards(layout.padded_numel(), 1, layout.padded_numel());
  const auto comm = make_self_communicator();
  OptimizerSetup setup;
  setup.layout = &layout;
  setup.shards = &shards;
  setup.comm = comm.get();
  setup.stage = 2;
  setup.guards = guards;
  IdleModel model(layout);
  NoSink sink;
  MemoryLedger ledger(device_space(), false);
  const CountedBuffer params(ledger, MemoryClass::param_full, layout.padded_numel(),
                             setup.param_dtype);
  StreamExecutor runner;
  LayeredPass pass(setup, model, nullptr, sink, ledger, params->view(), {}, &runner);
  const DeviceCalls before = device::device_calls();
  pass.run();
  return (device::device_calls() - before).copies;
}

}  // namespace

TEST_CASE(
    "device: unit gradients are NaN outside their lifetimes if guarded, without cost otherwise") {
  if (!device::device_info().answers) return;
  CHECK(moves_of_pass(true) - moves_of_pass(false) == 2 * (3 + 1));  // all three share the bucket
}

}  // namespace layered_fills_test
