// L-BFGS on ranks with different setups.

#include <doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "common/comm/threads.hpp"
#include "cuda/lbfgs/lbfgs.hpp"

namespace lbfgs_agreement_test {

namespace {

using namespace zeroproof;

class FlatClosure final : public Closure {
  double compute(Span<const float>, Span<float> grad_shard) override {
    std::ranges::fill(grad_shard, 0.0F);
    return 1;
  }
};

}  // namespace

TEST_CASE(
    "lbfgs: a rank with another setting or state is named on every rank before anything is "
    "evaluated") {
  const FlatLayout layout({{"x", {2000}}});
  const ShardMap shards(layout.padded_numel(), 2, 2048);
  const std::vector<float> x(2048, 1.0F);
  for (const bool other_state : {false, true}) {
    std::vector<std::string> texts(2);
    ThreadWorld world(2);
    run_ranks(world, [&](Communicator& comm) {
      const bool differs = comm.rank() == 1;
      LbfgsSetup setup{&layout, &shards, &comm, {}, {}};
      if (differs && !other_state) setup.hyper.lr = 0.5;
      LbfgsState state;
      state.master = x;
      if (differs && other_state) state.iterations = 3;
      const auto optimizer = cuda::make_lbfgs(setup);
      optimizer->load_state(state);
      FlatClosure closure;
      try {
        optimizer->step(closure);
      } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::comm);
        texts[comm.rank()] = error.what();
      }
      CHECK(closure.evaluations() == 0);
    });
    const std::string setting = other_state ? "state.iterations" : "hyper.lr";
    CHECK(texts[0].rfind("the values of " + setting + " of rank 1 differ from those of rank 0",
                         0) == 0);
    CHECK(texts[1] == texts[0]);
  }
}

}  // namespace lbfgs_agreement_test
