#include "common/step/clip_groups.hpp"

#include <doctest.h>

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/complaint.hpp"

namespace clip_groups_test {

using namespace zeroproof;
using namespace zeroproof_test;

namespace {

FlatLayout model() {
  return FlatLayout({{"embed.weight", {256, 15}},
                     {"block.weight", {15, 45}},
                     {"block.bias", {45}},
                     {"temperature", {}}});
}

ClipGroupRule rule(const std::string& name, const std::vector<std::string>& match,
                   bool vectors = false) {
  return {name, match, vectors, {}};
}

std::string complaint_of(const std::vector<ClipGroupRule>& rules) {
  try {
    make_clip_groups(rules, model());
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::config);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("clip groups: the first matching rule has the tensor, the default group the rest") {
  CHECK(make_clip_groups({}, model()).of_tensor.empty());
  CHECK(ClipGroups{}.count() == 1);
  CHECK(ClipGroups{}.of(3) == 0);
  const ClipGroups groups =
      make_clip_groups({rule("vectors", {}, true), rule("block", {"block.*", "nothing"})}, model());
  CHECK(groups.count() == 3);
  CHECK(groups.of_tensor == std::vector<int>{0, 2, 1, 1});
  CHECK(groups.of(1) == 2);
  CHECK(make_clip_groups({rule("all", {"*"})}, model()).of_tensor == std::vector<int>{1, 1, 1, 1});
}

TEST_CASE("clip groups: a limit of their own, no limit, or the run's") {
  ClipGroups groups = make_clip_groups(
      {rule("a", {"embed*"}), rule("b", {"block*"}), rule("c", {"temperature"})}, model());
  groups.rules[0].max_norm = 0.25;
  groups.rules[1].max_norm = 0;
  using Limits = std::vector<std::optional<double>>;
  CHECK(max_norms_of(groups, 2.0) == Limits{2.0, 0.25, 0.0, 2.0});
  CHECK(max_norms_of(groups, {}) == Limits{{}, 0.25, 0.0, {}});
  CHECK(max_norms_of({}, 2.0) == Limits{2.0});
}

TEST_CASE("clip groups: invalid rules are rejected") {
  CHECK(has(complaint_of({rule("", {"*"})}), "clip group 1 has no name"));
  CHECK(has(complaint_of({rule("a", {"embed*"}), rule("a", {"block*"})}),
            "two clip groups have the name 'a'"));
  CHECK(has(complaint_of({rule("a", {})}), "'a' has neither match nor vectors"));
  CHECK(has(complaint_of({rule("a", {"x"})}), "'a' matches no tensor"));
  CHECK(
      has(complaint_of({rule("a", {"block*"}), rule("b", {"block.bias"})}), "'b' gets no tensor"));
  for (const double limit :
       {-1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    ClipGroupRule limited = rule("a", {"*"});
    limited.max_norm = limit;
    CHECK(has(complaint_of({limited}), "clip group 'a': max_norm is "));
  }
  CHECK(complaint_of({rule("a", {"embed.weight"})}).empty());
}

}  // namespace clip_groups_test
