// L-BFGS over ranks: the same bits for every number of ranks and every shard map.

#include <algorithm>

#include "tests/reference/lbfgs/lbfgs_plain.hpp"

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

FlatLayout uneven_layout() {
  return FlatLayout(
      {{"a", {37}}, {"nothing", {0, 5}}, {"b", {3, 700}}, {"one", {}}, {"c", {1025}}});
}

/// Ranks alternate in pieces of odd lengths with any boundaries; some padding has an owner too.
/// With gaps, the last rank owns nothing.
ShardMap ragged_map(const FlatLayout& layout, int world_size, bool gaps) {
  const int owners = gaps ? std::max(1, world_size - 1) : world_size;
  Bucket bucket{{0, layout.padded_numel()}, std::vector<std::vector<FlatRange>>(world_size)};
  std::int64_t begin = 0;
  for (std::int64_t turn = 0; begin < layout.padded_numel(); ++turn) {
    const std::int64_t end = std::min(layout.padded_numel(), begin + 1 + (turn * 173) % 611);
    bucket.owned[turn % owners].push_back({begin, end});
    begin = end;
  }
  return ShardMap(layout.padded_numel(), world_size, std::vector<Bucket>{bucket});
}

std::vector<ShardMap> maps_of(const FlatLayout& layout, int world_size) {
  std::vector<ShardMap> maps;
  maps.emplace_back(layout.padded_numel(), world_size, 1024);  // more ranks than chunks of a bucket
  maps.emplace_back(layout.padded_numel(), world_size, 16384);  // one bucket
  maps.push_back(ragged_map(layout, world_size, false));
  maps.push_back(ragged_map(layout, world_size, true));
  return maps;
}

struct Trajectory {
  Problem problem;
  std::vector<float> start;
  LbfgsHyper hyper;
  int num_steps = 3;
};

std::vector<Trajectory> trajectories(std::size_t numel) {
  std::vector<Trajectory> result(5);
  result[0].problem = rosenbrock;
  result[0].start = random_values(static_cast<std::int64_t>(numel), 5, 1);
  result[0].hyper.line_search = LineSearch::armijo;
  result[0].hyper.max_iter = 5;
  result[0].hyper.history_size = 3;
  result[1] = result[0];
  result[1].hyper.line_search = LineSearch::none;  // too far, sooner or later
  result[1].hyper.lr = 0.7;
  result[1].hyper.history_size = 100;
  result[2].problem = reciprocal;
  for (std::size_t i = 0; i < numel; ++i)
    result[2].start.push_back(0.5F + 0.001F * static_cast<float>(i % 997));
  result[2].hyper.line_search = LineSearch::armijo;
  result[2].hyper.lr = 3;  // out of the domain at first
  result[2].hyper.max_iter = 6;
  result[3] = result[2];
  result[3].hyper.line_search = LineSearch::none;  // leaves the domain, removes all pairs, restarts
  result[3].hyper.tolerance_change = 1e-3;
  result[4] = result[0];
  result[4].hyper.lr = 40;
  result[4].hyper.max_ls = 4;  // too few
  result[4].hyper.history_size = 1;
  return result;
}

std::vector<std::uint32_t> bits_of(const std::vector<float>& values) { return bits(values); }

}  // namespace

TEST_CASE("lbfgs worlds: the reference on one rank equals the second implementation of R21") {
  const FlatLayout layout({{"a", {37}}, {"b", {200}}, {"c", {5}}});
  const ShardMap alone(layout.padded_numel(), 1, 1024);
  for (const Trajectory& t : trajectories(242)) {
    const LbfgsRun run =
        run_lbfgs(layout, alone, t.hyper, t.problem, starting_at(layout, t.start), 12);
    PlainLbfgs plain(t.hyper, t.problem, t.start);
    for (std::size_t step = 0; step < run.reports.size(); ++step) {
      check_same_report(plain.step(), run.reports[step]);
      const OwnedState& state = run.states[step];
      REQUIRE(bits_of(elements(state.master, layout)) == bits_of(plain.x));
      REQUIRE(state.pending == plain.pending);
      REQUIRE(state.started == plain.started);
      REQUIRE(bits(state.h) == bits(plain.h));
      REQUIRE(state.rho.size() == plain.pairs.size());
      for (std::size_t i = 0; i < state.rho.size(); ++i) {
        REQUIRE(bits(state.rho[i]) == bits(plain.pairs[i].rho));
        REQUIRE(bits_of(elements(state.steps[i], layout)) == bits_of(plain.pairs[i].s));
        REQUIRE(bits_of(elements(state.grad_changes[i], layout)) == bits_of(plain.pairs[i].y));
      }
      if (!state.pending) continue;
      REQUIRE(bits_of(elements(state.move, layout)) == bits_of(plain.move));
      REQUIRE(bits_of(elements(state.grad_before, layout)) == bits_of(plain.grad_before));
    }
  }
}

TEST_CASE("lbfgs worlds: the same iterates for every number of ranks and every shard map") {
  const FlatLayout layout = uneven_layout();
  const std::size_t numel = elements_of(layout).size();
  const ShardMap alone(layout.padded_numel(), 1, 16384);
  for (const Trajectory& t : trajectories(numel)) {
    const OwnedState from = starting_at(layout, t.start);
    const LbfgsRun expected = run_lbfgs(layout, alone, t.hyper, t.problem, from, t.num_steps);
    for (const int world_size : {1, 2, 3, 5, 8}) {
      for (const ShardMap& shards : maps_of(layout, world_size)) {
        const LbfgsRun run = run_lbfgs(layout, shards, t.hyper, t.problem, from, t.num_steps);
        for (std::size_t step = 0; step < run.reports.size(); ++step) {
          check_same_report(run.reports[step], expected.reports[step]);
          check_same_state(run.states[step], expected.states[step], layout);
        }
      }
    }
  }
}

TEST_CASE(
    "lbfgs worlds: a loaded state continues with the same bits, on other numbers of ranks too") {
  const FlatLayout layout = uneven_layout();
  for (const Trajectory& t : trajectories(elements_of(layout).size())) {
    const LbfgsRun expected = run_lbfgs(layout, ragged_map(layout, 2, false), t.hyper, t.problem,
                                        starting_at(layout, t.start), 4);
    const LbfgsRun rest =
        run_lbfgs(layout, ragged_map(layout, 5, true), t.hyper, t.problem, expected.states[1], 2);
    for (std::size_t step = 0; step < 2; ++step) {
      check_same_report(rest.reports[step], expected.reports[step + 2]);
      check_same_state(rest.states[step], expected.states[step + 2], layout);
    }
  }
}

TEST_CASE("lbfgs worlds: Rosenbrock's valley in fp32 converges") {
  const FlatLayout layout({{"x", {10}}});
  const ShardMap shards = ragged_map(layout, 3, false);
  LbfgsHyper hyper;
  hyper.line_search = LineSearch::armijo;
  hyper.max_iter = 4;
  hyper.tolerance_grad = 1e-3;
  hyper.tolerance_change = 0;
  const std::vector<float> start = {-1.2F, 1, -1.2F, 1, -1, 1.5F, 0, 0, 2, -1};
  const LbfgsRun run = run_lbfgs(layout, shards, hyper, rosenbrock, starting_at(layout, start), 40);
  for (const LbfgsReport& report : run.reports) {
    CHECK((report.loss < report.first_loss || report.iterations == 0));
  }
  CHECK(run.reports.back().end == LbfgsEnd::gradient);
  std::vector<float> g(10);
  const std::vector<float> x = elements(run.states.back().master, layout);
  CHECK(rosenbrock(x, g) == run.reports.back().loss);
  CHECK(run.reports.back().loss < run.reports[0].first_loss);
  // With |g| <= w = 1e-3, g1 = 200 (x1 - x0^2) and g0 = -2 (1 - x0) - 2 x0 g1 give
  // 2 |1 - x0| <= w + 2 w (1 + |1 - x0|), so |1 - x0| <= 1.5 w / (1 - w).
  for (std::size_t i = 0; i < x.size(); ++i) {
    CHECK(std::fabs(g[i]) <= 1e-3F);
    if (i % 2 == 0) CHECK(std::fabs(1 - x[i]) <= 1.51e-3F);
  }
}
