// Setups that the production step refuses before anything runs.

#include <string>

#include "common/base/error.hpp"
#include "common/comm/self.hpp"
#include "cuda/device/runtime/device.hpp"
#include "tests/cuda/expect_error.hpp"
#include "tests/cuda/optimizer/production_world.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

/// What one rank needs for a setup that can be run.
struct OneRank {
  std::unique_ptr<Communicator> comm = make_self_communicator();
  ShardMap shards{odd_layout().padded_numel(), 1, 2048};

  OptimizerSetup setup() const {
    OptimizerSetup setup;
    setup.layout = &odd_layout();
    setup.shards = &shards;
    setup.comm = comm.get();
    return setup;
  }
};

}  // namespace

TEST_CASE("setups that cannot be run are refused") {
  const OneRank rank;
  CHECK_NOTHROW(cuda::make_distributed_optimizer(rank.setup()));
  const auto refused = [&](const std::function<void(OptimizerSetup&)>& change) {
    OptimizerSetup bad = rank.setup();
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

TEST_CASE("a device that does not answer is named before anything is made for it") {
  if (cuda::device::device_info().answers) return;
  const OneRank rank;
  for (const bool fused : {false, true}) {
    try {
      cuda::make_distributed_optimizer(rank.setup(), Space::device, fused);
      FAIL("an optimizer was made for a device that is not there");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::unavailable);
      CHECK(std::string(error.what()).find("no CUDA device can run the device implementations") ==
            0);
    }
  }
}
