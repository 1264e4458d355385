// Exit codes of training jobs whose ranks are processes.

#include <doctest.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <optional>
#include <vector>

#include "verification/tools/train/rank_processes.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;
using Ranks = std::vector<std::optional<int>>;

}  // namespace

TEST_CASE("rank processes: a signal to the command or to a rank is 128 and its number") {
  const Ranks well = {0, 0}, second = {0, 143}, first = {130, 0}, unknown = {-1, 0};
  CHECK(exit_code_of_job({.ranks = well}) == 0);
  CHECK(exit_code_of_job({.ranks = well, .stopped = true, .signal = SIGINT}) == 130);
  CHECK(exit_code_of_job({.ranks = well, .stopped = true, .signal = SIGTERM}) == 143);
  for (const int command : {0, 143}) {
    CHECK(exit_code_of_job({.ranks = second, .command = command, .stopped = true}) == 143);
    CHECK(exit_code_of_job({.ranks = first, .command = command}) == 130);
  }
  CHECK(exit_code_of_job({.ranks = unknown, .stopped = true}) == 143);
}

TEST_CASE("rank processes: the cause that a rank reports precedes ranks that miss others") {
  const Ranks damaged = {6, 7}, late = {5, 6}, gone = {6, std::nullopt}, none = {{}, {}};
  CHECK(exit_code_of_job({.ranks = damaged, .command = 7}) == 7);
  CHECK(exit_code_of_job({.ranks = damaged, .command = 7, .hangs = true}) == 5);
  CHECK(exit_code_of_job({.ranks = late, .command = 5}) == 5);
  CHECK(exit_code_of_job({.ranks = gone, .command = 1}) == 6);
  CHECK(exit_code_of_job({.ranks = none, .command = 137}) == 6);
  CHECK(exit_code_of_job({.ranks = none, .command = 1, .started = false}) == 3);
}

TEST_CASE("rank processes: every exit code is one of the documented table") {
  const std::array documented = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 129, 130, 143};
  std::vector<std::optional<int>> codes = {std::nullopt};
  for (int code = -1; code <= 255; ++code) codes.emplace_back(code);
  int ends = 0;
  for (const std::optional<int>& one : codes) {
    for (const std::optional<int>& other : {codes[0], codes[2], codes[145], one}) {
      const Ranks ranks = {one, other};
      for (const int command : {0, 1, 137, 143}) {
        for (const int signal : {0, SIGINT, SIGTERM}) {
          for (int flags = 0; flags < 8; ++flags) {
            const JobEnd end{ranks, command, (flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0,
                             signal};
            const int code = exit_code_of_job(end);
            const bool is_documented =
                std::find(documented.begin(), documented.end(), code) != documented.end();
            if (!is_documented) CAPTURE(code);
            if (!is_documented) CHECK(is_documented);
            ++ends;
          }
        }
      }
    }
  }
  CHECK(ends == 258 * 4 * 4 * 3 * 8);
}
