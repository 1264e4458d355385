// Ends of an L-BFGS step, and the stored pairs: one branch after the other, with scripted closures.

#include "tests/reference/lbfgs/lbfgs_script.hpp"

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

/// Tolerances off, so that only the tested condition ends a step.
Scripted without_tolerances(std::int64_t numel = 1) {
  Scripted run(numel);
  run.hyper.tolerance_grad = 0;
  run.hyper.tolerance_change = 0;
  return run;
}

}  // namespace

TEST_CASE("lbfgs ends: max_iter, and the last move is not evaluated") {
  Scripted run = without_tolerances();
  run.hyper.max_iter = 3;
  run.start({0});
  const LbfgsReport report = run.step({{9, {4}}, {8, {3}}, {7, {2}}});
  CHECK(report.end == LbfgsEnd::max_iter);
  CHECK(report.iterations == 3);
  CHECK(report.loss == 7);
  CHECK(run.state().iterations == 3);
}

TEST_CASE("lbfgs ends: max_eval, also as five quarters of max_iter, and never inside a search") {
  Scripted given = without_tolerances();
  given.hyper.max_eval = 2;
  given.start({0});
  CHECK(given.step({{9, {4}}, {8, {3}}}).end == LbfgsEnd::max_eval);

  // Every iteration takes three trials: E is 4, then 7, and floor(5 * 5 / 4) = 6.
  Scripted quarter = without_tolerances();
  quarter.hyper.max_iter = 5;
  quarter.hyper.max_eval = {};
  quarter.hyper.line_search = LineSearch::armijo;
  quarter.start({0});
  const LbfgsReport report =
      quarter.step({{9, {4}}, {10, {1}}, {10, {1}}, {8, {3}}, {10, {1}}, {10, {1}}, {7, {2}}});
  CHECK(report.end == LbfgsEnd::max_eval);
  CHECK(report.iterations == 2);

  // E is 4, then 5: floor(5 * 4 / 4).
  Scripted fifth = without_tolerances();
  fifth.hyper.max_iter = 4;
  fifth.hyper.max_eval = {};
  fifth.hyper.line_search = LineSearch::armijo;
  fifth.start({0});
  const LbfgsReport second = fifth.step({{9, {4}}, {10, {1}}, {10, {1}}, {8, {3}}, {7, {2}}});
  CHECK(second.end == LbfgsEnd::max_eval);
  CHECK(second.iterations == 2);

  // E = 6 after five one-trial iterations of six: floor(5 * 6 / 4) = 7 comes no earlier than
  // max_iter does.
  Scripted sixth = without_tolerances();
  sixth.hyper.max_iter = 6;
  sixth.hyper.max_eval = {};
  sixth.hyper.line_search = LineSearch::armijo;
  sixth.start({0});
  CHECK(sixth.step({{9, {7}}, {8, {6}}, {7, {5}}, {6, {4}}, {5, {3}}, {4, {2}}, {3, {1}}}).end ==
        LbfgsEnd::max_iter);
}

TEST_CASE("lbfgs ends: gradient, after a move") {
  Scripted run = without_tolerances();
  run.hyper.tolerance_grad = 0.25;
  run.start({0});
  const LbfgsReport report = run.step({{9, {4}}, {8, {-0.25F}}});
  CHECK(report.end == LbfgsEnd::gradient);
  CHECK(report.max_abs_grad == 0.25);
  CHECK(run.state().pending);
}

TEST_CASE("lbfgs ends: step, by the largest element of the move") {
  // g = (1, 1/4), so t = lr / (5/4) and the largest move is t.
  for (const bool at : {true, false}) {
    Scripted run = without_tolerances(2);
    run.hyper.lr = 0x1.4p-20;
    run.hyper.tolerance_change = at ? 0x1p-20 : std::nextafter(0x1p-20, 0.0);
    run.hyper.max_iter = 2;
    run.start({0, 0});
    const LbfgsReport report = run.step({{9, {1, 0.25F}}, {8, {1, 0.25F}}});
    CHECK(report.end == (at ? LbfgsEnd::step : LbfgsEnd::max_iter));
  }
}

TEST_CASE("lbfgs ends: loss, up or down by less than the tolerance") {
  for (const double f : {1 - 0x1p-30, 1 + 0x1p-30, 1.0}) {
    for (const bool below : {true, false}) {
      Scripted run = without_tolerances();
      run.hyper.tolerance_change = below ? std::nextafter(0x1p-30, 1.0) : 0x1p-30;
      run.hyper.max_iter = 2;
      run.start({0});
      const LbfgsReport report = run.step({{1, {4}}, {f, {3}}});
      CHECK(report.end == (below || f == 1 ? LbfgsEnd::loss : LbfgsEnd::max_iter));
    }
  }
}

TEST_CASE("lbfgs ends: no_descent stores no pair and keeps the stored ones") {
  Scripted run = without_tolerances();
  run.hyper.max_iter = 3;
  run.start({0});
  run.step({{9, {4}}, {8, {3}}, {7, {2}}});
  const OwnedState before = run.owned();
  REQUIRE(before.rho.size() == 2);

  run.hyper.tolerance_change = 1;
  run.make();
  run.optimizer->load_state(before.view());
  const LbfgsReport report = run.step({{7, {0.4375F}}});
  CHECK(report.end == LbfgsEnd::no_descent);
  CHECK(report.gtd > -1);
  CHECK(report.pairs_stored == 1);  // that of the last move
  CHECK(run.state().rho.size() == 3);
  CHECK_FALSE(run.state().pending);
  CHECK(run.state().started);
  CHECK(run.state().iterations == 4);
  CHECK(run.x() == elements(before.master, run.layout));

  const LbfgsReport again = run.step({{7, {0.25F}}});
  CHECK(again.pairs_stored + again.pairs_skipped == 0);
}

TEST_CASE("lbfgs ends: a directional derivative at the tolerance is descent") {
  for (const bool at : {true, false}) {
    Scripted run = without_tolerances();
    run.hyper.tolerance_change = at ? 1.0 : std::nextafter(1.0, 2.0);
    run.hyper.max_iter = 1;
    run.start({0});
    CHECK(run.step({{9, {1}}}).end == (at ? LbfgsEnd::max_iter : LbfgsEnd::no_descent));
  }
}

TEST_CASE("lbfgs ends: a direction that is not finite") {
  // s = -1e38 and y = -2^-24 give h = 1.7e45, infinite in fp32, and infinity times zero in d.
  Scripted run = without_tolerances();
  run.hyper.lr = 1e38;
  run.start({0});
  const LbfgsReport report = run.step({{9, {1}}, {8, {1 - 0x1p-24F}}});
  CHECK(report.end == LbfgsEnd::nonfinite);
  CHECK(std::isnan(report.gtd));
  CHECK(report.pairs_stored == 1);
  CHECK(report.iterations == 2);
  CHECK(run.x() == std::vector<float>{-1e38F});  // the first move stays
  CHECK(run.forgot());
}

TEST_CASE("lbfgs pairs: stored above 1e-10 only") {
  // y.s = 2^-24 lr: 2^-33 = 1.16e-10 is enough, 2^-34 = 0.58e-10 is not.
  for (const bool enough : {true, false}) {
    Scripted run = without_tolerances();
    run.hyper.lr = enough ? 0x1p-9 : 0x1p-10;
    run.hyper.max_iter = 2;
    run.start({0});
    const LbfgsReport report = run.step({{9, {1}}, {8, {1 - 0x1p-24F}}});
    CHECK(report.pairs_stored == (enough ? 1 : 0));
    CHECK(report.pairs_skipped == (enough ? 0 : 1));
    CHECK(run.state().h == (enough ? 0x1p-33 / 0x1p-48 : 1));
  }
}

TEST_CASE("lbfgs pairs: skipped for negative curvature and when a product overflows") {
  Scripted concave = without_tolerances();
  concave.hyper.max_iter = 2;
  concave.start({0});
  const LbfgsReport report = concave.step({{9, {1}}, {8, {2}}});
  CHECK(report.pairs_skipped == 1);
  CHECK(report.step_length == 1);  // lr: only the very first step is shortened
  CHECK(concave.x() == std::vector<float>{-3});

  Scripted overflow = without_tolerances();
  overflow.hyper.max_iter = 2;
  overflow.start({0});
  const float large = std::numeric_limits<float>::max();
  CHECK(overflow.step({{9, {large}}, {8, {-large}}}).pairs_skipped ==
        1);  // y = -inf, so y.s = +inf
  CHECK(overflow.state().h == 1);
}

TEST_CASE("lbfgs pairs: skipped when the move is infinite") {
  // The second move is 3e38 times -2; this closure gives y = -1 anyway, so y.s = +inf and y.y = 1.
  Scripted run = without_tolerances();
  run.hyper.lr = 3e38;
  run.hyper.max_iter = 3;
  run.start({0});
  const LbfgsReport report = run.step({{9, {1}}, {8, {2}}, {7, {1}}});
  CHECK(run.visited[2] == std::vector<float>{-inf32});
  CHECK(report.pairs_skipped == 2);
  CHECK(run.state().h == 1);
}

TEST_CASE("lbfgs pairs: the oldest is removed first, and history_size may exceed the pairs") {
  for (const std::int64_t kept : {1, 2, 100}) {
    Scripted run = without_tolerances();
    run.hyper.max_iter = 5;
    run.hyper.history_size = kept;
    run.start({0});
    const LbfgsReport report = run.step({{9, {16}}, {8, {15}}, {7, {13}}, {6, {9}}, {5, {1}}});
    CHECK(report.pairs_stored == 4);
    const LbfgsState state = run.state();
    const std::vector<float> changes = {-1, -2, -4, -8};
    REQUIRE(state.rho.size() == static_cast<std::size_t>(std::min<std::int64_t>(kept, 4)));
    for (std::size_t i = 0; i < state.rho.size(); ++i) {
      CHECK(state.grad_changes[i][0] == changes[4 - state.rho.size() + i]);
    }
  }
}
