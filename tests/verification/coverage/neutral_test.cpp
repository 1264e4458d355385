// A value that changes nothing is not covered by being there: every value of a setting gives other bits than another
// one, in some row of the array.

#include <doctest.h>

#include <string>

#include "tests/verification/coverage/coverage_support.hpp"
#include "verification/judge/dense_baseline.hpp"
#include "verification/settings/setting.hpp"

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;

namespace {

/// The trajectory of the undistributed optimizer.
std::string trajectory(const CaseSpec& spec) {
  const RunConfig config = config_of({}, spec);
  static const workload::Text text = load_text(config);
  const Experiment experiment(spec.workload, config, spec.dtype, text, spec.recipe);
  GradCache leaves(experiment);
  DenseBaseline dense(experiment, leaves);
  for (std::int64_t step = 1; step <= config.steps; ++step) {
    dense.step(step);
    leaves.forget();
  }
  return to_hex(*dense.trace().hash);
}

/// Whether one of the first rows with value a that may have value b instead goes another way with it.
bool told_apart(std::size_t axis, int a, int b) {
  constexpr int most = 24;
  int tried = 0;
  for (const CoveredRow& row : tiny_rows().pairs) {
    if (row.values[axis] != a) continue;
    Wanted wanted = row.wanted;
    wanted[axis] = b;
    const auto other = tiny_rows().space.run_of(wanted);
    if (!other || other->values[axis] != b) continue;
    if (trajectory(row.spec) != trajectory(other->spec)) return true;
    if (++tried == most) return false;
  }
  return false;
}

}  // namespace

TEST_CASE("no value of a setting is neutral everywhere") {
  int compared = 0;
  for (std::size_t axis = 0; axis < axes().size(); ++axis) {
    if (axes()[axis].of_id && axes()[axis].name != "rule" && axes()[axis].name != "dtype") continue;
    const auto count = static_cast<int>(axes()[axis].values.size());
    for (int value = 0; value < count; ++value) {
      const std::string& name = axes()[axis].values[static_cast<std::size_t>(value)].name;
      // Where it makes a difference the run ends there, and no row does (tests/reference/dense_settings_test.cpp).
      if (axes()[axis].name == "on_nonfinite" && name == "error") continue;
      CAPTURE(axes()[axis].name);
      CAPTURE(name);
      bool alive = false;
      for (int other = 0; other < count && !alive; ++other)
        alive = other != value && told_apart(axis, value, other);
      CHECK(alive);
      ++compared;
    }
  }
  CHECK(compared > 90);
}
