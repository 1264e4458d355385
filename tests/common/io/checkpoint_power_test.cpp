// A loss of power at any moment, with any subset of unsynced writes lost: a checkpoint whose save
// returned exists, and no incomplete one does.

#include <doctest.h>

#include <cstdio>
#include <filesystem>
#include <random>

#include "tests/common/io/recording_disk.hpp"
#include "tests/common/io/small_checkpoint.hpp"
#include "tests/support/temporary_folder.hpp"

namespace checkpoint_power_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

/// States after every prefix of the calls, `repeats` of each.
void check_states(const RecordingDisk& disk,
                  const std::vector<std::pair<std::size_t, std::int64_t>>& returned, int repeats,
                  int& states, int& bad) {
  std::mt19937 random(1);
  for (std::size_t num_calls = 0; num_calls <= disk.calls().size(); ++num_calls) {
    for (int repeat = 0; repeat < repeats; ++repeat) {
      // Everything lost, nothing lost, and anything in between.
      const unsigned chance = static_cast<unsigned>(repeat) % 5;
      const TemporaryFolder after = TemporaryFolder::in_memory();
      std::filesystem::create_directory(after.file("run"));
      disk.replay(num_calls, after.file("run"), [&] { return random() % 4 < chance; });
      std::int64_t promised = -1;
      for (const auto& [calls, step] : returned) {
        if (calls <= num_calls) promised = step;
      }
      std::string problem;
      const std::int64_t newest = newest_whole(after.file("run"), problem);
      if (newest < promised) problem += " step " + std::to_string(promised) + " is lost";
      ++states;
      if (!problem.empty()) ++bad;
      INFO("after ", num_calls, " calls, state ", repeat);
      CHECK(problem == "");
    }
  }
}

}  // namespace

TEST_CASE("checkpoint: 10,000 losses of power") {
  int states = 0, bad = 0;
  for (const int ranks : {1, 3}) {
    const TemporaryFolder folder = TemporaryFolder::in_memory();
    std::filesystem::create_directory(folder.file("run"));
    RecordingDisk disk;
    std::vector<std::pair<std::size_t, std::int64_t>> returned;
    for (const std::int64_t step :
         {10, 20, 20, 30}) {  // a first one, another, one overwritten, one with pruning
      save_small(disk, folder.file("run"), step, ranks, step == 30 ? 1 : 0);
      returned.emplace_back(disk.calls().size(), step);
    }
    check_states(disk, returned, 60, states, bad);
  }
  std::printf("losses of power %d, bad %d\n", states, bad);
  CHECK(states >= 10000);
}

namespace {

/// The control: a protocol without file syncs.
class ForgetfulDisk : public RecordingDisk {
 public:
  int sync(int) override { return 0; }
};

}  // namespace

TEST_CASE("checkpoint: control: without syncs, losses of power are detected") {
  const TemporaryFolder folder = TemporaryFolder::in_memory();
  std::filesystem::create_directory(folder.file("run"));
  ForgetfulDisk disk;
  save_small(disk, folder.file("run"), 10, 2);
  int lost = 0;
  std::mt19937 random(1);
  for (int state = 0; state < 100; ++state) {
    const TemporaryFolder after = TemporaryFolder::in_memory();
    std::filesystem::create_directory(after.file("run"));
    disk.replay(disk.calls().size(), after.file("run"), [&] { return random() % 2 == 0; });
    std::string problem;
    if (newest_whole(after.file("run"), problem) < 10) ++lost;
  }
  CHECK(lost >= 80);
}

}  // namespace checkpoint_power_test
