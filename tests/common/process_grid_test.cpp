#include "common/layout/process_grid.hpp"

#include <doctest.h>

#include <cstdint>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/complaint.hpp"

namespace process_grid_test {

using namespace zeroproof;
using namespace zeroproof_test;

namespace {

std::string parse_complaint(const std::string& text) {
  return complaint([&] { parse_grid(text); });
}

std::string world_complaint(const ProcessGrid& grid, int world_size) {
  return complaint([&] { require_grid(grid, world_size); });
}

}  // namespace

TEST_CASE("process_grid: every rank of every grid up to 64 ranks has one position") {
  int grids = 0;
  for (const int cp : {1, 2, 4, 8}) {
    for (const int tp : {1, 2, 4, 8}) {
      for (int dp = 1; cp * tp <= 8 && dp * cp * tp <= 64; ++dp) {
        const ProcessGrid grid{dp, cp, tp};
        CAPTURE(grid.id());
        ++grids;
        CHECK(grid.world_size() == dp * cp * tp);
        CHECK(grid.data_ranks() == dp * cp);
        CHECK(parse_grid(grid.id()) == grid);
        require_grid(grid, dp * cp * tp);
        // Ranks counted by hand: tp fastest, then cp, then dp.
        bool same = true;
        int rank = 0;
        for (int d = 0; d < dp; ++d) {
          for (int c = 0; c < cp; ++c) {
            for (int t = 0; t < tp; ++t, ++rank) {
              const ProcessGrid::Place place{d, c, t};
              same = same && grid.place(rank) == place && grid.rank(place) == rank;
              same = same && grid.tp_rank(rank) == t && grid.data_rank(rank) == d * cp + c;
              same =
                  same && grid.data_rank(rank) % cp == c;  // data rank r is CP rank r mod cp (R11)
            }
          }
        }
        CHECK(same);
        CHECK(rank == grid.world_size());
      }
    }
  }
  CHECK(grids == 64 + 2 * 32 + 3 * 16 + 4 * 8);
}

TEST_CASE("process_grid: invalid grid text is rejected") {
  for (const char* text : {"",
                           "x",
                           "1",
                           "1x1",
                           "1x1x",
                           "x1x1",
                           "1xx1",
                           "1x1x1x1",
                           "1x1x1 ",
                           " 1x1x1",
                           "1 x1x1",
                           "1X1X1",
                           "0x1x1",
                           "1x0x1",
                           "1x1x0",
                           "-1x1x1",
                           "1x-1x1",
                           "+1x1x1",
                           "01x1x1",
                           "1x02x1",
                           "1.0x1x1",
                           "axbxc",
                           "1,1,1",
                           "1048577x1x1",
                           "99999999999999999999x1x1",
                           "1x99999999999999999999x1",
                           "0x10x1x1"}) {
    CAPTURE(text);
    CHECK(has(parse_complaint(text), "'" + std::string(text) + "' does not exist"));
  }
  for (const char* text : {"1x3x1", "1x1x3", "2x16x1", "2x1x16", "1x5x8", "1x6x6"}) {
    CAPTURE(text);
    CHECK(has(parse_complaint(text), "other than 1, 2, 4 and 8"));
  }
  CHECK(has(parse_complaint("1x2x8"), "into 16 parts"));
  CHECK(has(parse_complaint("1x8x8"), "into 64 parts"));
  CHECK(has(parse_complaint("3x4x4"), "into 16 parts"));
  CHECK(parse_grid("3x2x4") == ProcessGrid{3, 2, 4});
  CHECK(parse_grid("1048576x8x1") == ProcessGrid{1 << 20, 8, 1});
}

TEST_CASE("process_grid: a grid of another size is rejected with the nearest grid that fits") {
  const std::tuple<ProcessGrid, int, const char*> cases[] = {
      {{2, 1, 4}, 12, "3x1x4"},                           // another dp is enough
      {{2, 1, 4}, 6, "3x1x2"},                            // 4 does not divide 6
      {{2, 1, 4}, 7, "7x1x1"},  {{2, 2, 2}, 6, "3x1x2"},  // tp stays rather than cp
      {{1, 8, 1}, 4, "1x4x1"},  {{1, 4, 2}, 4, "1x2x2"}, {{1, 1, 1}, 5, "5x1x1"},
      {{1, 2, 4}, 1, "1x1x1"},  {{1, 1, 8}, 9, "9x1x1"}, {{4, 1, 1}, 3, "3x1x1"},
  };
  for (const auto& one : cases) {
    const ProcessGrid grid = std::get<0>(one);
    const int world = std::get<1>(one);
    const std::string text = world_complaint(grid, world);
    CAPTURE(text);
    CHECK(has(text, "grid " + grid.id() + " has " + std::to_string(grid.world_size()) +
                        " ranks, the world " + std::to_string(world)));
    CHECK(has(text, std::string("use ") + std::get<2>(one) + ","));
  }
  CHECK(has(world_complaint({1, 1, 1}, 0), "world of 0 ranks"));
  CHECK(has(world_complaint({1, 1, 1}, -3), "world of -3 ranks"));
}

}  // namespace process_grid_test
