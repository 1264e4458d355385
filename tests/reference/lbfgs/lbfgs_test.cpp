// L-BFGS on one rank: by hand, and with scripted closures.

#include "reference/lbfgs/lbfgs.hpp"

#include "tests/reference/lbfgs/lbfgs_script.hpp"

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

/// (x0^2 + 4 x1^2) / 2
double quadratic(const std::vector<float>& x, std::vector<float>& g) {
  const double a = x[0];
  const double b = x[1];
  g = {x[0], 4 * x[1]};
  return (a * a + 4 * (b * b)) / 2;
}

}  // namespace

TEST_CASE("lbfgs: two iterations and one more, by hand") {
  // From (4, 1): g = (4, 4), so t = 1/8 and x = (7/2, 1/2), g = (7/2, 2). Then s = (-1/2, -1/2),
  // y = (-1/2, -2), y.s = 5/4, y.y = 17/4, h = 5/17; the recursion gives d = (-379/170, -139/170)
  // and x = (108/85, -27/85). The numbers below are these with the roundings of R21, computed with
  // fractions on paper.
  const FlatLayout layout({{"x", {2}}});
  const ShardMap shards(layout.padded_numel(), 1, 1024);
  LbfgsHyper hyper;
  hyper.max_iter = 1;
  const LbfgsRun run = run_lbfgs(layout, shards, hyper, quadratic, starting_at(layout, {4, 1}), 3);

  const OwnedState& first = run.states[0];
  CHECK(elements(first.master, layout) == std::vector<float>{3.5F, 0.5F});
  CHECK(elements(first.move, layout) == std::vector<float>{-0.5F, -0.5F});
  CHECK(elements(first.grad_before, layout) == std::vector<float>{4, 4});
  CHECK(first.pending);
  CHECK(first.started);
  CHECK(first.rho.empty());
  CHECK(run.reports[0].gtd == -32);
  CHECK(run.reports[0].step_length == 0.125);
  CHECK(run.reports[0].first_loss == 10);
  CHECK(run.reports[0].loss == 10);  // the new point is not evaluated in the last iteration
  CHECK(run.reports[0].max_abs_grad == 4);
  CHECK(run.reports[0].evaluations == 1);
  CHECK(run.reports[0].end == LbfgsEnd::max_iter);

  const OwnedState& second = run.states[1];
  CHECK(elements(second.master, layout) == std::vector<float>{0x1.454544p+0F, -0x1.45454p-2F});
  CHECK(elements(second.move, layout) == std::vector<float>{-0x1.1d5d5ep+1F, -0x1.a2a2ap-1F});
  REQUIRE(second.rho.size() == 1);
  CHECK(elements(second.steps[0], layout) == std::vector<float>{-0.5F, -0.5F});
  CHECK(elements(second.grad_changes[0], layout) == std::vector<float>{-0.5F, -2});
  CHECK(second.rho[0] == 0x1.999999999999ap-1);
  CHECK(second.h == 0x1.2d2d2d2d2d2d3p-2);
  CHECK(run.reports[1].gtd == -0x1.2e06064p+3);
  CHECK(run.reports[1].first_loss == 6.625);
  CHECK(run.reports[1].pairs_stored == 1);

  const OwnedState& third = run.states[2];
  CHECK(elements(third.master, layout) == std::vector<float>{0x1.09b0cp-3F, -0x1.6a37f8p-4F});
  CHECK(elements(third.move, layout) == std::vector<float>{-0x1.240f2cp+0F, 0x1.d56e84p-3F});
  CHECK(third.rho[1] == 0x1.0be803e171815p-3);
  CHECK(third.h == 0x1.f3a4cfe57cc4ep-2);
  CHECK(run.reports[2].gtd == -0x1.bda4d1be0a5p+0);
  CHECK(run.reports[2].first_loss == 0x1.024d959a4f08p+0);
  CHECK(third.iterations == 3);
  CHECK(third.evaluations == 3);

  // The same three iterations as one step: only the evaluations and the step that counts them
  // differ.
  hyper.max_iter = 3;
  hyper.max_eval = 4;
  const LbfgsRun together =
      run_lbfgs(layout, shards, hyper, quadratic, starting_at(layout, {4, 1}), 1);
  check_same_state(together.states[0], third, layout);
  CHECK(together.reports[0].loss == 0x1.024d959a4f08p+0);
  CHECK(together.reports[0].max_abs_grad == 0x1.454544p+0);
}

TEST_CASE("lbfgs: backtracking by hand") {
  // 8 x^2 from 1: g = 16, so t = lr / 16 = 1 and x = -15, -7, -3, -1 (not less than before), 0.
  Scripted run(1);
  run.hyper.lr = 16;
  run.hyper.line_search = LineSearch::armijo;
  run.start({1});
  const LbfgsReport report =
      run.step({{8, {16}}, {1800, {-240}}, {392, {-112}}, {72, {-48}}, {8, {-16}}, {0, {0}}});
  CHECK(run.visited == std::vector<std::vector<float>>{{1}, {-15}, {-7}, {-3}, {-1}, {0}});
  CHECK(report.end == LbfgsEnd::gradient);
  CHECK(report.step_length == 0.0625);
  CHECK(report.evaluations == 6);
  CHECK(report.loss == 0);
  CHECK(run.state().move[0] == -1);
}

TEST_CASE("lbfgs: the sufficient decrease is f + (1e-4 t) gtd, inclusive") {
  // g = 1 and t = 1: the bound is 1 - 1e-4 rounded once.
  const double bound = 1 + -1e-4;
  for (const double f : {bound, std::nextafter(bound, 2.0)}) {
    Scripted run(1);
    run.hyper.line_search = LineSearch::armijo;
    run.hyper.max_ls = 1;
    run.start({0});
    const LbfgsReport report = run.step({{1, {1}}, {f, {0}}});
    CHECK(report.end == (f == bound ? LbfgsEnd::gradient : LbfgsEnd::line_search));
  }
}

TEST_CASE("lbfgs: a failed search keeps x and removes all pairs") {
  Scripted run(2);
  run.hyper.line_search = LineSearch::armijo;
  run.hyper.max_ls = 4;
  run.hyper.max_iter = 1;
  run.start({4, 1});
  run.step({{10, {4, 4}}, {6.625, {3.5F, 2}}});
  REQUIRE(run.state().pending);
  const LbfgsReport report =
      run.step({{6.625, {3.5F, 2}}, {7, {1, 1}}, {7, {1, 1}}, {7, {1, 1}}, {7, {1, 1}}});
  CHECK(report.end == LbfgsEnd::line_search);
  CHECK(report.evaluations == 5);
  CHECK(report.pairs_stored == 1);
  CHECK(report.loss == 6.625);
  CHECK(report.max_abs_grad == 3.5);
  CHECK(report.step_length == 0);
  CHECK(run.x() == std::vector<float>{3.5F, 0.5F});
  CHECK(run.forgot());
  CHECK(run.state().iterations == 2);
  CHECK(run.state().evaluations == 7);

  // The next step begins like the first: g = (4, 4), t = 1/8.
  const LbfgsReport again = run.step({{10, {4, 4}}, {1, {1, 1}}});
  CHECK(again.step_length == 0.125);
  CHECK(again.gtd == -32);
}

TEST_CASE("lbfgs: the first loss or gradient is not finite") {
  for (const ScriptLine& line : {ScriptLine{nan64, {1, 1}}, ScriptLine{inf64, {1, 1}},
                                 ScriptLine{1, {1, nan32}}, ScriptLine{1, {-inf32, 1}}}) {
    Scripted run(2);
    run.hyper.max_iter = 2;
    run.start({4, 1});
    run.step({{10, {4, 4}}, {6.625, {3.5F, 2}}});
    const OwnedState before = run.owned();
    REQUIRE(before.rho.size() == 1);
    REQUIRE(before.pending);
    const LbfgsReport report = run.step({line});
    CHECK(report.end == LbfgsEnd::nonfinite);
    CHECK(report.iterations == 0);
    CHECK(report.evaluations == 1);
    CHECK(bits(report.first_loss) == bits(line.f));
    OwnedState after = run.owned();
    CHECK(after.evaluations == before.evaluations + 1);
    after.evaluations = before.evaluations;
    check_same_state(after, before, run.layout);
  }
}

TEST_CASE("lbfgs: a move to a loss that is not finite is undone") {
  for (const ScriptLine& line :
       {ScriptLine{nan64, {1}}, ScriptLine{-inf64, {1}}, ScriptLine{0, {nan32}}}) {
    Scripted run(1);
    run.start({3});
    const LbfgsReport report = run.step({{10, {2}}, line});
    CHECK(run.visited == std::vector<std::vector<float>>{{3}, {2}});
    CHECK(report.end == LbfgsEnd::nonfinite);
    CHECK(report.loss == 10);
    CHECK(report.max_abs_grad == 2);
    CHECK(report.step_length == 0);
    CHECK(run.x() == std::vector<float>{3});
    CHECK(run.forgot());

    // With a search it is one more rejected point.
    Scripted search(1);
    search.hyper.line_search = LineSearch::armijo;
    search.start({3});
    const LbfgsReport found = search.step({{10, {2}}, line, {9, {0}}});
    CHECK(found.end == LbfgsEnd::gradient);
    CHECK(search.visited == std::vector<std::vector<float>>{{3}, {2}, {2.5F}});
  }
}

TEST_CASE("lbfgs: a gradient of zero or at the tolerance ends a step") {
  Scripted zero(2);
  zero.hyper.tolerance_grad = 0;
  zero.start({1, 2});
  CHECK(zero.step({{5, {0, -0.0F}}}).end == LbfgsEnd::gradient);
  CHECK_FALSE(zero.state().started);
  CHECK(zero.state().iterations == 0);

  Scripted at(1);
  at.hyper.tolerance_grad = 0.5;
  at.hyper.max_iter = 1;
  at.start({1});
  CHECK(at.step({{5, {-0.5F}}}).end == LbfgsEnd::gradient);
  CHECK(at.step({{5, {std::nextafter(0.5F, 1.0F)}}}).end == LbfgsEnd::max_iter);
}

TEST_CASE("lbfgs: the first step length is lr over the 1-norm, at most lr") {
  for (const float g : {0.25F, 1.0F, 8.0F}) {
    Scripted run(2);
    run.hyper.lr = 0.5;
    run.hyper.max_iter = 1;
    run.start({0, 0});
    const LbfgsReport report = run.step({{1, {g, -g}}});
    CHECK(report.step_length == (g == 8.0F ? 0.5 / 16 : g == 1.0F ? 0.25 : 0.5));
    CHECK(run.x() == std::vector<float>{-static_cast<float>(report.step_length) * g,
                                        static_cast<float>(report.step_length) * g});
  }
}
