#include "common/layout/joined_ranges.hpp"

#include <doctest.h>

#include <vector>

namespace joined_ranges_test {

using namespace zeroproof;

TEST_CASE("joined ranges: ranges that overlap or touch are merged, in any order; gaps stay") {
  using Ranges = std::vector<FlatRange>;
  CHECK(joined_ranges({}) == Ranges{});
  CHECK(joined_ranges({{5, 9}}) == Ranges{{5, 9}});
  CHECK(joined_ranges({{5, 9}, {0, 3}}) == Ranges{{0, 3}, {5, 9}});
  CHECK(joined_ranges({{3, 5}, {0, 3}}) == Ranges{{0, 5}});
  CHECK(joined_ranges({{0, 9}, {2, 4}, {8, 12}, {13, 14}}) == Ranges{{0, 12}, {13, 14}});
  CHECK(joined_ranges({{7, 8}, {7, 8}, {6, 7}}) == Ranges{{6, 8}});
}

}  // namespace joined_ranges_test
