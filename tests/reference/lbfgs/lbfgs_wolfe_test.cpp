// The strong Wolfe search of R21, with scripted trials for every branch. In every case the search
// begins at x = 2 with f = 1 and g = 1, so d = -1, gtd = -1, the first step length is lr = 1, and a
// trial with gradient g has the slope -g.

#include "reference/lbfgs/strong_wolfe.hpp"
#include "tests/reference/lbfgs/lbfgs_script.hpp"

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

struct Search : Scripted {
  explicit Search(std::int64_t max_ls = 25) : Scripted(1) {
    hyper.line_search = LineSearch::strong_wolfe;
    hyper.max_iter = 1;
    hyper.max_ls = max_ls;
  }

  /// One search over the trials; appends every x that is tried to `visited`.
  LbfgsReport over(std::vector<ScriptLine> trials) {
    start({2});
    trials.insert(trials.begin(), {1, {1}});
    return step(trials);
  }
  double tried(std::size_t trial) const { return 2.0 - double{visited.at(trial)[0]}; }
};

reference::LineTrial at(double t, double f, double slope) { return {t, f, slope, true, 0, {}}; }

}  // namespace

TEST_CASE("lbfgs wolfe: the cubic by hand") {
  using reference::cubic_minimum;
  // 1 - t + 2 t^2 from 0 to 1, in either order: least at 1/4.
  CHECK(cubic_minimum(at(0, 1, -1), at(1, 2, 3), 0, 1) == 0.25);
  CHECK(cubic_minimum(at(1, 2, 3), at(0, 1, -1), 0, 1) == 0.25);
  CHECK(cubic_minimum(at(0, 1, -1), at(1, 2, 3), 0.5, 1) == 0.5);
  CHECK(cubic_minimum(at(0, 1, -1), at(1, 2, 3), 0, 0.125) == 0.125);
  // t^3 - 3 t from 0 (slope -3) to 2 (slope 9): least at 1.
  CHECK(cubic_minimum(at(0, 0, -3), at(2, 2, 9), 0, 2) == 1);
  // t^3 + t has no minimum: the middle. Neither has a line, where the divisor is 0: the upper
  // limit.
  CHECK(cubic_minimum(at(-1, -2, 4), at(1, 2, 4), -1, 1) == 0);
  CHECK(cubic_minimum(at(0, 1, -1), at(1, 0, -1), 1.01, 10) == 10);
  CHECK(cubic_minimum(at(0, 1, -1), {1, infinity, 0, false, 0, {}}, 0, 1) == 0.5);
}

TEST_CASE("lbfgs wolfe: the first trial is flat enough") {
  Search run;
  const LbfgsReport report = run.over({{0, {0.875}}});
  CHECK(report.end == LbfgsEnd::max_iter);
  CHECK(report.step_length == 1);
  CHECK(report.loss == 0);
  CHECK(report.max_abs_grad == 0.875);
  CHECK(run.x() == std::vector<float>{1});
}

TEST_CASE("lbfgs wolfe: an unchanged slope extends ten times, a changed sign brackets") {
  Search outwards;
  CHECK(outwards.over({{0, {1}}, {-5, {0}}}).step_length == 10);
  CHECK(outwards.tried(2) == 10);
  // A slope of 2 at 10, f lower than ever: between 1 and 10.
  Search back;
  const LbfgsReport report = back.over({{0, {1}}, {-5, {-2}}, {-6, {0}}});
  CHECK(back.tried(3) > 1);
  CHECK(back.tried(3) < 10);
  CHECK(report.step_length > 1);
  CHECK(report.loss == -6);
}

TEST_CASE("lbfgs wolfe: a bracket is narrowed where the cubic is least") {
  Search run;
  const LbfgsReport report = run.over({{2, {-3}}, {0.75, {0}}});
  CHECK(run.tried(2) == 0.25);
  CHECK(report.step_length == 0.25);
  CHECK(report.evaluations == 3);
  // Still steep at 1/4: a downward slope continues to the right of it, an upward one to the left.
  Search right;
  CHECK(right.over({{2, {-3}}, {0.75, {0.95F}}, {0.5, {0}}}).step_length > 0.25);
  Search left;
  CHECK(left.over({{2, {-3}}, {0.75, {-0.95F}}, {0.5, {0}}}).step_length < 0.25);
  CHECK(left.tried(3) > 0);
  // A trial that is not lower than the better end replaces the other one.
  Search higher;
  CHECK(higher.over({{2, {-3}}, {1, {0}}, {0.5, {0}}}).step_length < 0.25);
}

TEST_CASE("lbfgs wolfe: the condition on f uses the start, inclusive") {
  // w = 1 + (1e-4 * 1) * -1.
  const double w = 1 + (1e-4 * 1.0) * -1.0;
  Search inside;
  CHECK(inside.over({{w, {0}}}).step_length == 1);
  Search outside;
  CHECK(outside.over({{std::nextafter(w, 2.0), {0}}, {0, {0}}}).evaluations == 3);
}

TEST_CASE("lbfgs wolfe: a trial near an end is moved inwards the second time") {
  // 1 - t + 10 t^2 is least at 0.05, closer than a tenth to 0. Then ends at 0.05 and 1: a tenth of
  // 0.95 from the lower.
  Search run;
  run.over({{10, {-19}}, {0.99, {0.95F}}, {0.5, {0}}});
  CHECK(std::fabs(run.tried(2) - 0.05) < 1e-7);
  CHECK(std::fabs(run.tried(3) - 0.145) < 1e-6);
}

TEST_CASE("lbfgs wolfe: steps to trials that are not finite are halved") {
  for (const ScriptLine& bad :
       {ScriptLine{infinity, {1}}, ScriptLine{0, {nan32}}, ScriptLine{-infinity, {0}}}) {
    Search run;
    const LbfgsReport report = run.over({bad, bad, {0.5, {0}}});
    CHECK(run.tried(1) == 1);
    CHECK(run.tried(2) == 0.5);
    CHECK(run.tried(3) == 0.25);
    CHECK(report.step_length == 0.25);
    CHECK(report.loss == 0.5);
  }
}

TEST_CASE("lbfgs wolfe: without a lower trial x stays and all pairs are removed") {
  Search run(2);
  const LbfgsReport report = run.over({{5, {-1}}, {5, {-1}}, {5, {-1}}});
  CHECK(report.end == LbfgsEnd::line_search);
  CHECK(report.step_length == 0);
  CHECK(report.loss == 1);
  CHECK(run.x() == std::vector<float>{2});
  CHECK(run.forgot());
}

TEST_CASE("lbfgs wolfe: at max_ls the lower of start and last trial is accepted") {
  Search run(1);
  // Two trials, both as steep as the start and lower: no condition is checked for the second.
  CHECK(run.over({{0, {1}}, {-1, {1}}}).step_length == 10);
  // A bracket that is too small for tolerance_change ends the search at once.
  Search small;
  small.hyper.tolerance_change = 0.5;
  small.hyper.lr = 0.25;
  CHECK(small.over({{2, {-3}}}).end == LbfgsEnd::line_search);
}
