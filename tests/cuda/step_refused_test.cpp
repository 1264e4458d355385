// Setups that the production step refuses before anything runs.

#include <string>

#include "common/base/error.hpp"
#include "common/comm/self.hpp"
#include "tests/cuda/expect_error.hpp"
#include "tests/cuda/production_world.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

}  // namespace

TEST_CASE("setups that cannot be run are refused") {
  const FlatLayout& layout = odd_layout();
  const auto comm = make_self_communicator();
  const ShardMap shards(layout.padded_numel(), 1, 2048);
  OptimizerSetup good;
  good.layout = &layout;
  good.shards = &shards;
  good.comm = comm.get();
  CHECK_NOTHROW(cuda::make_distributed_optimizer(good));
  const auto refused = [&](const std::function<void(OptimizerSetup&)>& change) {
    OptimizerSetup bad = good;
    change(bad);
    expect_error(ErrorCode::invalid_argument, [&] { cuda::make_distributed_optimizer(bad); });
  };
  refused([](OptimizerSetup& s) { s.stage = 4; });  // and whatever else validate_setup refuses
  refused([](OptimizerSetup& s) { s.hyper.eps = 0; });
  refused([](OptimizerSetup& s) { s.scaler.growth_interval = 0; });
  refused([](OptimizerSetup& s) {
    s.groups.rules.resize(1);
    s.groups.rules[0].lr = -1;
  });
}

TEST_CASE("fused passes are refused on a device, whether there is one or not") {
  const FlatLayout& layout = odd_layout();
  const auto comm = make_self_communicator();
  const ShardMap shards(layout.padded_numel(), 1, 2048);
  OptimizerSetup setup;
  setup.layout = &layout;
  setup.shards = &shards;
  setup.comm = comm.get();
  try {
    cuda::make_distributed_optimizer(setup, Space::device, true);
    FAIL("fused passes were made for a device");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::unavailable);
    CHECK(std::string(error.what()).find("fused passes were asked for on a device") == 0);
  }
}
