#include "verification/report/loss_chart.hpp"

#include <doctest.h>

#include <algorithm>
#include <cmath>

#include "verification/cli/program/text_lines.hpp"

using namespace zeroproof::verification;

namespace {

TrainingTrace trace_of(const std::vector<double>& losses) {
  TrainingTrace trace;
  trace.workload = "byte_gpt";
  for (const double loss : losses) trace.steps.push_back({loss, 1, 1, 0, false});
  return trace;
}

}  // namespace

TEST_CASE("loss chart: a column is as high as its loss, the axis begins at 0") {
  // Of five rows: 4.0 reaches all, 3.8 (4.75 rows) all, 2.0 (2.5) three, 1.9 (2.375) two, 0.1 (0.125) none.
  CHECK(lines_of(loss_charts({trace_of({4.0, 3.8, 2.0, 1.9, 0.1})})) ==
        std::vector<std::string>{"  byte_gpt adamw bf16: loss 4.0000 -> 0.1000", "   4.0 |##",
                                 "       |##", "       |###", "       |####", "       |####",
                                 "     0 +-----", "        steps 1 to 5"});
}

TEST_CASE("loss chart: two charts side by side, long runs share columns, width fits a terminal") {
  TrainingTrace skips = trace_of(std::vector<double>(100, 2.5));
  skips.steps[3].skipped = true;
  const std::vector<std::string> lines = lines_of(loss_charts({skips, skips, trace_of({1, 2})}));
  REQUIRE(lines.size() == 16);
  for (const std::string& line : lines) CHECK(line.size() <= 98);
  CHECK(std::count(lines[1].begin(), lines[1].end(), '#') == 64);
  CHECK(lines[7] ==
        "        steps 1 to 100, 1 skipped (overflow)              steps 1 to 100, 1 skipped "
        "(overflow)");
  CHECK(loss_charts({trace_of({std::nan(""), 1})}) == "");
  CHECK(loss_charts({}) == "");
}
