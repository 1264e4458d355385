// Errors of L-BFGS, and the loss of a step.

#include "tests/reference/lbfgs/lbfgs_script.hpp"

using namespace zeroproof;
using namespace zeroproof::tests;

TEST_CASE("lbfgs: a step without a state is rejected") {
  Scripted run(1);
  run.make();
  ScriptedClosure closure({{1, {1}}}, run.visited);
  ZP_CHECK_INVALID(run.optimizer->step(closure));
}

TEST_CASE("lbfgs: invalid settings and states are rejected") {
  const auto refused = [](auto change) {
    Scripted run(1);
    change(run.hyper);
    ZP_CHECK_INVALID(run.make());
  };
  for (const double lr : {0.0, -1.0, nan64, inf64, 1e39, 1e-39})
    refused([&](LbfgsHyper& h) { h.lr = lr; });
  for (const double tolerance : {-1e-9, nan64, inf64}) {
    refused([&](LbfgsHyper& h) { h.tolerance_grad = tolerance; });
    refused([&](LbfgsHyper& h) { h.tolerance_change = tolerance; });
  }
  for (const std::int64_t count : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1} << 31}) {
    refused([&](LbfgsHyper& h) { h.max_iter = count; });
    refused([&](LbfgsHyper& h) { h.max_eval = count; });
    refused([&](LbfgsHyper& h) { h.history_size = count; });
    refused([&](LbfgsHyper& h) { h.max_ls = count; });
  }
  refused([](LbfgsHyper& h) { h.max_ls = 101; });

  const auto refused_state = [](auto change) {
    Scripted run(1);
    run.hyper.history_size = 1;
    run.make();
    OwnedState state = starting_at(run.layout, {1});
    change(state);
    ZP_CHECK_INVALID(run.optimizer->load_state(state.view()));
  };
  const std::vector<float> vector(1024, 1.0F);
  refused_state([](OwnedState& s) { s.master.pop_back(); });
  refused_state([](OwnedState& s) { s.pending = true; });
  refused_state([&](OwnedState& s) { s.move = vector; });
  refused_state([&](OwnedState& s) { s.grad_before = vector; });
  refused_state([&](OwnedState& s) { s.steps = {vector}; });
  refused_state([&](OwnedState& s) { s.grad_changes = {vector}; });
  refused_state([](OwnedState& s) { s.rho = {1}; });
  refused_state([](OwnedState& s) { s.iterations = -1; });
  refused_state([](OwnedState& s) { s.evaluations = -1; });
  refused_state([&](OwnedState& s) {
    s.steps = s.grad_changes = {vector, vector};
    s.rho = {1, 1};
  });
  refused_state([&](OwnedState& s) {
    s.steps = {vector};
    s.grad_changes = {{1}};
    s.rho = {1};
  });
}

TEST_CASE("mean_loss: the tree in fp64, then one division") {
  using reference::mean_loss;
  CHECK(mean_loss(std::vector<double>{3}, 2) == 1.5);
  CHECK(bits(mean_loss(std::vector<double>{-0.0}, 1)) == bits(-0.0));
  CHECK(mean_loss(std::vector<double>{1, 2, 6}, 3) == 3);
  // (1 + 2^-53) + (2^-53 + 2^-53): the first pair rounds down to 1, the second reaches the last
  // bit.
  const double w = 0x1p-53;
  CHECK(mean_loss(std::vector<double>{1, w, w, w}, 1) == 1 + 2 * w);
  CHECK(mean_loss(std::vector<double>{1, w, w}, 1) == 1);          // (1 + w) + w
  CHECK(mean_loss(std::vector<double>{w, w, 1}, 1) == 1 + 2 * w);  // (w + w) + 1
  CHECK(mean_loss(std::vector<double>{1, w, w, w, w}, 1) ==
        1 + 4 * w);  // the fifth comes last, and ties to even
  CHECK(mean_loss(std::vector<double>{1, 0, 0}, 3) == 1.0 / 3);
  CHECK(mean_loss(std::vector<double>{5}, 49) == 5.0 / 49);  // 5 * (1.0 / 49) is another number
  CHECK(bits(mean_loss(std::vector<double>{-0.0, -0.0, -0.0}, 1)) ==
        bits(-0.0));  // nothing is added to the third
  CHECK(std::isnan(mean_loss(std::vector<double>{1, nan64}, 2)));
  ZP_CHECK_INVALID(mean_loss({}, 1));
  ZP_CHECK_INVALID(mean_loss(std::vector<double>{1}, 0));
  ZP_CHECK_INVALID(mean_loss(std::vector<double>{1}, std::int64_t{1} << 53));
}

TEST_CASE("lbfgs: inconsistent setups are rejected") {
  const FlatLayout layout({{"x", {3000}}});
  const FlatLayout longer({{"x", {5000}}});
  const ShardMap shards(layout.padded_numel(), 1, 1024);
  const ShardMap two(layout.padded_numel(), 2, 1024);
  const ShardMap of_longer(longer.padded_numel(), 1, 1024);
  const ShardMap hole(
      layout.padded_numel(), 1,
      std::vector<Bucket>{{{0, layout.padded_numel()}, {{{0, 1000}, {1001, 3000}}}}});
  const std::unique_ptr<Communicator> comm = make_self_communicator();
  CHECK_NOTHROW(reference::make_lbfgs({&layout, &shards, comm.get(), {}, {}}));
  ZP_CHECK_INVALID(reference::make_lbfgs({nullptr, &shards, comm.get(), {}, {}}));
  ZP_CHECK_INVALID(reference::make_lbfgs({&layout, nullptr, comm.get(), {}, {}}));
  ZP_CHECK_INVALID(reference::make_lbfgs({&layout, &shards, nullptr, {}, {}}));
  ZP_CHECK_INVALID(reference::make_lbfgs({&layout, &two, comm.get(), {}, {}}));
  ZP_CHECK_INVALID(reference::make_lbfgs({&layout, &of_longer, comm.get(), {}, {}}));
  ZP_CHECK_INVALID(reference::make_lbfgs({&layout, &hole, comm.get(), {}, {}}));
}
