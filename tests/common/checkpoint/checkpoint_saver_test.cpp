// A failure on one rank of a save ends it on all ranks with the same message, and no checkpoint is
// lost.

#include "common/checkpoint/checkpoint_saver.hpp"

#include <doctest.h>

#include <atomic>
#include <filesystem>
#include <mutex>
#include <new>
#include <set>
#include <stdexcept>
#include <thread>

#include "common/checkpoint/rank_report.hpp"
#include "common/io/checkpoint/checkpoint_names.hpp"
#include "tests/common/checkpoint/saving.hpp"
#include "tests/common/checkpoint/troubled_disk.hpp"
#include "tests/common/io/faulty_disk.hpp"
#include "tests/support/temporary_folder.hpp"

namespace checkpoint_saver_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace fs = std::filesystem;

namespace {

constexpr SaveMode both_modes[] = {SaveMode::synchronous, SaveMode::asynchronous};
const Held three = {{1, 3, 1, 1}, LayoutKind::contract, 2};

int unfinished(const std::string& path) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator(path))
    count += entry.path().filename().string()[0] == '.' ? 1 : 0;
  return count;
}

std::string text_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// Saves step 10 with salt 2 and waits for it; every rank has its own disk. Returns the error of
/// each rank.
struct Outcome {
  std::vector<std::string> texts;
  std::vector<int> calls;  ///< calls of each rank's disk
};
Outcome save_ten(const std::string& path, SaveMode mode, int keep, int culprit, Mishap mishap,
                 int at) {
  Outcome outcome{std::vector<std::string>(3), std::vector<int>(3)};
  run_grid(three.grid, [&](const GridPlace& place) {
    HeldState state(three, place, held_values(2));
    FaultyDisk disk(place.number == culprit ? mishap : Mishap::none, at);
    const auto rank = static_cast<std::size_t>(place.number);
    outcome.texts[rank] = text_of([&] {
      CheckpointSaver saver(path, *place.all, keep, mode, disk);
      saver.save(state, state.setup(), held_layout(), held_content(10));
      saver.finish();
    });
    outcome.calls[rank] = disk.num_calls();
  });
  return outcome;
}

}  // namespace

TEST_CASE(
    "saver: every call of every rank fails once: all ranks get the same error, and nothing is "
    "lost") {
  const TemporaryFolder folder = TemporaryFolder::in_memory();
  int points = 0, failures = 0, short_writes = 0;
  for (const SaveMode mode : both_modes) {
    for (const int keep : {0, 1}) {
      const std::string first =
          folder.file("count" + std::to_string(static_cast<int>(mode)) + std::to_string(keep));
      const auto with_five = [&](const std::string& path) {
        run_grid(three.grid, [&](const GridPlace& place) {
          HeldState state(three, place, held_values(1));
          CheckpointSaver saver(path, *place.all, 0, SaveMode::synchronous);
          saver.save(state, state.setup(), held_layout(), held_content(5));
        });
      };
      with_five(first);
      const Outcome whole = save_ten(first, mode, keep, -1, Mishap::none, -1);
      CHECK(whole.texts == std::vector<std::string>(3));
      CHECK(held_problem(first, 10, 2).empty());
      for (int culprit = 0; culprit < 3; ++culprit) {
        REQUIRE(whole.calls[culprit] >= 3);
        for (int at = 0; at < whole.calls[culprit]; ++at) {
          for (const Mishap mishap : {Mishap::no_space, Mishap::io_error, Mishap::written_short}) {
            CAPTURE(culprit);
            CAPTURE(at);
            CAPTURE(static_cast<int>(mishap));
            const std::string path = folder.file("p" + std::to_string(points++));
            with_five(path);
            const Outcome outcome = save_ten(path, mode, keep, culprit, mishap, at);
            CHECK(outcome.texts[1] == outcome.texts[0]);
            CHECK(outcome.texts[2] == outcome.texts[0]);
            const bool failed = !outcome.texts[0].empty();
            failures += failed ? 1 : 0;
            short_writes += mishap == Mishap::written_short ? 1 : 0;
            if (mishap == Mishap::written_short) CHECK_FALSE(failed);
            if (failed) CHECK(outcome.texts[0].find("rank " + std::to_string(culprit) + ": ") == 0);
            // Every existing checkpoint is complete, and the old one was only replaced by a new
            // one.
            const std::vector<std::int64_t> steps = CheckpointRoot(path).steps();
            REQUIRE(!steps.empty());
            for (const std::int64_t step : steps)
              CHECK(held_problem(path, step, step == 5 ? 1 : 2).empty());
            if (!failed) CHECK(steps.back() == 10);
            // The next run succeeds, and no unfinished folder is left.
            const Outcome next = save_ten(path, mode, keep, -1, Mishap::none, -1);
            CHECK(next.texts[0].empty());
            CHECK(held_problem(path, 10, 2).empty());
            CHECK(unfinished(path) == 0);
            fs::remove_all(path);
          }
        }
      }
    }
  }
  MESSAGE(points << " points, " << failures << " saves that failed");
  CHECK(points > 200);
  CHECK(failures > (points - short_writes) / 2);
}

TEST_CASE(
    "saver: training continues during a save, and the checkpoint has the step of the call "
    "for") {
  const TemporaryFolder folder = TemporaryFolder::in_memory();
  const std::string path = folder.file("a");
  TroubledDisk disks[3];
  run_grid(three.grid, [&](const GridPlace& place) {
    HeldState state(three, place, held_values(1));
    TroubledDisk& disk = disks[place.number];
    CheckpointSaver saver(path, *place.all, 0, SaveMode::asynchronous, disk);
    CHECK(saver.advance());
    disk.waits = place.number == 1;  // one slow rank is enough
    saver.save(state, state.setup(), held_layout(), held_content(10));
    for (const BufferId id : saved_ids) state.fill(id, held_values(2));
    state.applied = 99;
    CHECK_FALSE(saver.advance());
    CHECK(CheckpointRoot(path).steps().empty());
    place.all->barrier();
    disk.waits = false;
    while (!saver.advance()) std::this_thread::sleep_for(std::chrono::milliseconds{1});
    CHECK(CheckpointRoot(path).steps() == std::vector<std::int64_t>{10});
    CHECK(saver.advance());
  });
  CHECK(held_problem(path, 10, 1) == "");
  const CheckpointReader reader(CheckpointRoot(path), 10);
  CHECK(reader.manifest().about.at("state").at("applied_steps").get<std::int64_t>() == 41);
}

TEST_CASE("saver: an asynchronous save writes the files of a synchronous one, byte for byte") {
  const TemporaryFolder folder = TemporaryFolder::in_memory();
  // As in a diverged run.
  const HeldBits bits = [](BufferId id, std::int64_t place) {
    return place % 7 == 3 ? 0xff800001U + static_cast<std::uint32_t>(place)
                          : held_values(1)(id, place);
  };
  int files = 0;
  for (const Held& held : many_places()) {
    CAPTURE(to_string(held));
    for (const SaveMode mode : both_modes) {
      run_grid(held.grid, [&](const GridPlace& place) {
        HeldState state(held, place, bits);
        state.setup().exec.num_threads = 1 + place.number % 3;
        CheckpointSaver saver(folder.file(mode == SaveMode::synchronous ? "now" : "later"),
                              *place.all, 1, mode);
        saver.save(state, state.setup(), held_layout(), held_content(10));
        saver.finish();
      });
    }
    for (const auto& entry : fs::directory_iterator(folder.file("now/" + checkpoint_name(10)))) {
      const std::string name = checkpoint_name(10) + "/" + entry.path().filename().string();
      const bool same = folder.read("later/" + name) == folder.read("now/" + name);
      CAPTURE(name);
      CHECK(same);
      ++files;
    }
    fs::remove_all(folder.file("now"));
    fs::remove_all(folder.file("later"));
  }
  CHECK(files > 100);
}

namespace {

/// Creating a manifest waits.
class WaitingCommit final : public Disk {
 public:
  int create(int folder, const char* name) override {
    while (waits && std::string(name) == manifest_name)
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    return Disk::create(folder, name);
  }
  std::atomic<bool> waits{true};
};

}  // namespace

TEST_CASE("saver: no rank waits while rank 0 commits") {
  const TemporaryFolder folder = TemporaryFolder::in_memory();
  const std::string path = folder.file("a");
  WaitingCommit disk;
  run_grid(three.grid, [&](const GridPlace& place) {
    HeldState state(three, place, held_values(1));
    CheckpointSaver saver(path, *place.all, 0, SaveMode::asynchronous, disk);
    saver.save(state, state.setup(), held_layout(), held_content(10));
    for (int step = 0; step < 200; ++step) {
      CHECK_FALSE(saver.advance());
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }
    CHECK(CheckpointRoot(path).steps().empty());
    place.all->barrier();
    disk.waits = false;
    while (!saver.advance()) std::this_thread::sleep_for(std::chrono::milliseconds{1});
    CHECK(CheckpointRoot(path).steps() == std::vector<std::int64_t>{10});
  });
  CHECK(held_problem(path, 10, 1) == "");
}

TEST_CASE("saver: a single rank commits asynchronously, and reports errors later") {
  const TemporaryFolder folder = TemporaryFolder::in_memory();
  const std::string path = folder.file("a");
  const Held alone{{1, 1, 1, 1}};
  TroubledDisk disk;
  run_grid(alone.grid, [&](const GridPlace& place) {
    HeldState state(alone, place, held_values(1));
    CheckpointSaver saver(path, *place.all, 2, SaveMode::asynchronous, disk);
    for (const std::int64_t step : {5, 10, 15}) {
      saver.save(state, state.setup(), held_layout(), held_content(step));
      // Without a call of advance().
      for (int i = 0; i < 5000 && CheckpointRoot(path).latest() != step; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds{1});
      CHECK(CheckpointRoot(path).latest() == step);
    }
    saver.finish();
    CHECK(CheckpointRoot(path).steps() == std::vector<std::int64_t>{10, 15});
    disk.full = true;
    saver.save(state, state.setup(), held_layout(), held_content(20));
    const std::string outcome = text_of([&] { saver.finish(); });
    CAPTURE(outcome);
    CHECK(outcome.find("No space left on device") != std::string::npos);
    CHECK(outcome.find("rank 0: ") == std::string::npos);
    CHECK(unfinished(path) == 0);
    disk.full = false;
    saver.save(state, state.setup(), held_layout(), held_content(25));
    while (!saver.advance()) std::this_thread::sleep_for(std::chrono::milliseconds{1});
    CHECK(CheckpointRoot(path).steps() == std::vector<std::int64_t>{15, 25});
  });
  CHECK(held_problem(path, 25, 1) == "");
}

TEST_CASE("saver: one checkpoint at a time is in progress") {
  const TemporaryFolder folder = TemporaryFolder::in_memory();
  const std::string path = folder.file("a");
  TroubledDisk disks[3];
  run_grid(three.grid, [&](const GridPlace& place) {
    HeldState state(three, place, held_values(1));
    TroubledDisk& disk = disks[place.number];
    CheckpointSaver saver(path, *place.all, 0, SaveMode::asynchronous, disk);
    disk.waits = true;
    saver.save(state, state.setup(), held_layout(), held_content(10));
    std::thread later([&disk] {
      std::this_thread::sleep_for(std::chrono::milliseconds{50});
      disk.waits = false;
    });
    saver.save(state, state.setup(), held_layout(), held_content(20));
    const std::vector<std::int64_t> steps = CheckpointRoot(path).steps();
    CHECK(!steps.empty());
    CHECK(steps.front() == 10);
    later.join();
    saver.finish();
    CHECK(disk.most_writers == 1);
  });
  CHECK(held_problem(path, 10, 1) == "");
  CHECK(held_problem(path, 20, 1) == "");
}

TEST_CASE(
    "saver: an error of a writer is reported at the next save or at the end, and later saves "
    "succeed") {
  const TemporaryFolder folder = TemporaryFolder::in_memory();
  for (const bool by_save : {true, false}) {
    const std::string path = folder.file(by_save ? "a" : "b");
    TroubledDisk disks[3];
    run_grid(three.grid, [&](const GridPlace& place) {
      HeldState state(three, place, held_values(1));
      TroubledDisk& disk = disks[place.number];
      CheckpointSaver saver(path, *place.all, 0, SaveMode::asynchronous, disk);
      const auto save = [&](std::int64_t step) {
        saver.save(state, state.setup(), held_layout(), held_content(step));
      };
      save(5);
      saver.finish();
      disk.full = place.number == 2;
      save(10);
      const std::string outcome = text_of([&] { by_save ? save(15) : saver.finish(); });
      CAPTURE(outcome);
      CHECK(outcome.find("rank 2: ") == 0);
      CHECK(outcome.find("rank-00002.safetensors") != std::string::npos);
      CHECK(outcome.find("No space left on device") != std::string::npos);
      place.all->barrier();  // until rank 0 has cleaned up
      CHECK(CheckpointRoot(path).steps() == std::vector<std::int64_t>{5});
      CHECK(unfinished(path) == 0);
      place.all->barrier();
      disk.full = false;
      save(20);
      saver.finish();
      CHECK(CheckpointRoot(path).steps() == std::vector<std::int64_t>{5, 20});
    });
    CHECK(held_problem(path, 5, 1) == "");
    CHECK(held_problem(path, 20, 1) == "");
  }
}

TEST_CASE("saver: an abandoned save leaves nothing unfinished") {
  const TemporaryFolder folder = TemporaryFolder::in_memory();
  const std::string path = folder.file("a");
  run_grid(three.grid, [&](const GridPlace& place) {
    HeldState state(three, place, held_values(1));
    {
      CheckpointSaver saver(path, *place.all, 0, SaveMode::asynchronous);
      saver.save(state, state.setup(), held_layout(), held_content(10));
      place.all->barrier();
    }
    place.all->barrier();
  });
  CHECK(CheckpointRoot(path).steps().empty());
  // Files that other ranks wrote after rank 0 had cleaned up are removed by the next run.
  { const CheckpointRoot next = CheckpointRoot::lock(path); }
  CHECK(unfinished(path) == 0);
}

TEST_CASE("saver: a folder in use is rejected on every rank, naming its owner") {
  const TemporaryFolder folder = TemporaryFolder::in_memory();
  const CheckpointRoot held = CheckpointRoot::lock(folder.file("a"));
  std::set<std::string> texts;
  std::mutex lock;
  run_grid(three.grid, [&](const GridPlace& place) {
    const std::string text = text_of([&] {
      const CheckpointSaver saver(folder.file("a"), *place.all, 0, SaveMode::synchronous);
    });
    const std::lock_guard guard(lock);
    texts.insert(text);
  });
  REQUIRE(texts.size() == 1);
  CAPTURE(*texts.begin());
  CHECK(texts.begin()->find("belongs to") != std::string::npos);
  CHECK(texts.begin()->find(std::to_string(::getpid())) != std::string::npos);
}

TEST_CASE("saver: keeps the requested number of checkpoints") {
  const TemporaryFolder folder = TemporaryFolder::in_memory();
  for (const SaveMode mode : both_modes) {
    const std::string path = folder.file(mode == SaveMode::synchronous ? "a" : "b");
    run_grid(three.grid, [&](const GridPlace& place) {
      HeldState state(three, place, held_values(1));
      CheckpointSaver saver(path, *place.all, 2, mode);
      for (const std::int64_t step : {3, 5, 9, 11})
        saver.save(state, state.setup(), held_layout(), held_content(step));
      saver.finish();
    });
    CHECK(CheckpointRoot(path).steps() == std::vector<std::int64_t>{9, 11});
    CHECK(CheckpointRoot(path).latest() == 11);
  }
}

TEST_CASE(
    "together: the first rank's error is every rank's, with its code; a single rank is not "
    "named") {
  const auto outcome = [](int ranks, const std::function<void(int)>& act) {
    std::set<std::string> all;
    std::mutex lock;
    run_grid({1, ranks, 1, 1}, [&](const GridPlace& place) {
      std::string text = "nothing";
      try {
        together(*place.all, [&] { act(place.number); });
      } catch (const Error& error) {
        text = std::string(error.what()) + " #" + std::to_string(static_cast<int>(error.code()));
      }
      const std::lock_guard guard(lock);
      all.insert(text);
    });
    return all.size() == 1 ? *all.begin() : "ranks differ";
  };
  const auto code = [](ErrorCode code) { return " #" + std::to_string(static_cast<int>(code)); };
  CHECK(outcome(3, [](int) {}) == "nothing");
  CHECK(outcome(4, [](int rank) {
          if (rank >= 2) throw Error(ErrorCode::io, "disk of " + std::to_string(rank));
        }) == "rank 2: disk of 2" + code(ErrorCode::io));
  CHECK(outcome(1, [](int) { throw Error(ErrorCode::damaged, "a \"quoted\"\nline"); }) ==
        "a \"quoted\"\nline" + code(ErrorCode::damaged));
  CHECK(outcome(2, [](int rank) {
          if (rank == 1) throw std::runtime_error("a message");
        }) == "rank 1: a message" + code(ErrorCode::internal));
  const std::string memory = outcome(2, [](int rank) {
    if (rank == 0) throw std::bad_alloc();
  });
  CHECK(memory.find("rank 0: out of memory (") == 0);
  CHECK(memory.find(code(ErrorCode::unavailable)) != std::string::npos);
}

}  // namespace checkpoint_saver_test
