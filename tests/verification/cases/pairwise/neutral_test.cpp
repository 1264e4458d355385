// A value without an effect would be visited but not tested: every value of a setting gives other
// bits than each other value, in some row of an array.

#include <doctest.h>

#include <cstdint>
#include <map>
#include <string>

#include "tests/verification/cases/pairwise/coverage_support.hpp"
#include "verification/cases/settings/setting.hpp"
#include "verification/compare/judge/dense_baseline.hpp"

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

/// Rows of the array of a seed. An effect that needs three settings at once may appear in one array
/// only.
const std::vector<CoveredRow>& rows_of(std::uint64_t seed) {
  static std::map<std::uint64_t, std::vector<CoveredRow>> arrays;
  if (seed == 1) return tiny_rows().pairs();
  const auto [array, fresh] = arrays.try_emplace(seed);
  if (fresh)
    array->second = covering_array(tiny_rows().space, tiny_rows().possible, Strength::pairs, seed);
  return array->second;
}

/// True if, in one of the first rows with value a that permit value b, b changes the trajectory.
bool told_apart(std::uint64_t seed, std::size_t axis, int a, int b) {
  constexpr int most = 8;
  int tried = 0;
  for (const CoveredRow& row : rows_of(seed)) {
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

TEST_CASE("nightly: neutral values: no value of a setting is neutral everywhere") {
  constexpr std::uint64_t seeds = 4;
  int compared = 0;
  for (std::size_t axis = 0; axis < axes().size(); ++axis) {
    if (axes()[axis].of_id && axes()[axis].name != "rule" && axes()[axis].name != "dtype") continue;
    const auto count = static_cast<int>(axes()[axis].values.size());
    for (int value = 0; value < count; ++value) {
      const std::string& name = axes()[axis].values[value].name;
      // A difference would end the run there, and no row does that
      // (tests/reference/step/dense_settings_test.cpp).
      if (axes()[axis].name == "on_nonfinite" && name == "error") continue;
      // A copy of the parameters, compared in every phase gather; no tensor of the model becomes all zeros
      // (tests/reference/formats/scale_recipe_test.cpp).
      if (axes()[axis].name == "columnwise" || axes()[axis].name == "empty_amax") continue;
      // The ranks that compute a matrix: they change no bit, and the undistributed optimizer has none.
      if (axes()[axis].name == "owners" || axes()[axis].name == "tensor_parallel") continue;
      CAPTURE(axes()[axis].name);
      CAPTURE(name);
      bool alive = false;
      for (std::uint64_t seed = 1; seed <= seeds && !alive; ++seed) {
        for (int other = 0; other < count && !alive; ++other)
          alive = other != value && told_apart(seed, axis, value, other);
      }
      CHECK(alive);
      ++compared;
    }
  }
  CHECK(compared > 90);
}
