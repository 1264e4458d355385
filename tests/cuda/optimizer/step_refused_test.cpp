// Setups that the production step rejects before a step.

#include <string>

#include "common/base/error.hpp"
#include "common/comm/self.hpp"
#include "cuda/device/runtime/device.hpp"
#include "tests/cuda/expect_error.hpp"
#include "tests/cuda/optimizer/production_world.hpp"

namespace step_refused_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

/// Parts of a valid setup of one rank.
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

TEST_CASE("production step: invalid setups are errors") {
  const OneRank rank;
  CHECK_NOTHROW(cuda::make_distributed_optimizer(rank.setup()));
  const auto refused = [&](const std::function<void(OptimizerSetup&)>& change) {
    OptimizerSetup bad = rank.setup();
    change(bad);
    expect_error(ErrorCode::invalid_argument, [&] { cuda::make_distributed_optimizer(bad); });
  };
  refused([](OptimizerSetup& s) { s.stage = 4; });  // and all other errors of validate_setup
  refused([](OptimizerSetup& s) { s.hyper.eps = 0; });
  refused([](OptimizerSetup& s) { s.scaler.growth_interval = 0; });
  refused([](OptimizerSetup& s) {
    s.groups.rules.resize(1);
    s.groups.rules[0].lr = -1;
  });
}

TEST_CASE("production step: a missing device is reported before any allocation") {
  if (cuda::device::device_info().answers) return;
  const OneRank rank;
  for (const bool fused : {false, true}) {
    try {
      cuda::make_distributed_optimizer(rank.setup(), Space::device, fused);
      FAIL("an optimizer was made for a missing device");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::unavailable);
      CHECK(std::string(error.what()).find("no CUDA device can run the device implementations") ==
            0);
    }
  }
}

}  // namespace step_refused_test
