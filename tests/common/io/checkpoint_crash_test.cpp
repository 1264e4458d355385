// An interrupted save: committed checkpoints stay, and an uncommitted one is not a checkpoint.

#include <doctest.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <new>
#include <random>
#include <thread>

#include "common/base/error.hpp"
#include "tests/common/io/faulty_disk.hpp"
#include "tests/common/io/small_checkpoint.hpp"
#include "tests/support/temporary_folder.hpp"

namespace checkpoint_crash_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace fs = std::filesystem;

namespace {

constexpr Mishap mishaps[] = {
    Mishap::killed_before, Mishap::killed_after, Mishap::killed_half_written,
    Mishap::written_short, Mishap::no_space,     Mishap::io_error};

/// Runs it in its own process, which may be killed. True if it was killed.
bool killed_in_child(const std::function<void()>& act) {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      act();
    } catch (const Error&) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status);
}

struct Save {
  const char* name;
  std::vector<std::int64_t> before;  ///< existing checkpoints
  std::int64_t step;
  int keep;
};

/// Invariants after any failure: a complete checkpoint if there was one, and no folder that looks
/// like a checkpoint but is incomplete.
std::string broken_promise(const std::string& path, const Save& save, int ranks) {
  std::string problem;
  const std::int64_t newest = newest_whole(path, problem);
  if (!problem.empty()) return problem;
  if (!save.before.empty() && newest < save.before.back())
    return "the newest is " + std::to_string(newest);
  // The next save succeeds, and leaves no unfinished folder.
  Disk& disk = system_disk();
  save_small(disk, path, 99, ranks);
  if (newest_whole(path, problem) != 99 || !problem.empty()) return "the next save: " + problem;
  if (CheckpointRoot(path).latest() != 99) return "LATEST is not the latest";
  for (const auto& entry : fs::directory_iterator(path)) {
    if (entry.path().filename().string()[0] == '.') return "left behind: " + entry.path().string();
  }
  return "";
}

}  // namespace

namespace {

void check_every_call(const std::vector<int>& worlds, int least) {
  int points = 0, bad = 0;
  for (const Save& save : {Save{"first", {}, 10, 0}, Save{"next", {5}, 10, 0},
                           Save{"overwrite", {5, 10}, 10, 0}, Save{"prune", {3, 5}, 10, 1}}) {
    for (const int ranks : worlds) {
      const auto prepare = [&](const std::string& path) {
        for (const std::int64_t step : save.before) save_small(system_disk(), path, step, ranks);
      };
      int num_calls = 0;
      {
        const TemporaryFolder folder = TemporaryFolder::in_memory();
        prepare(folder.file("run"));
        FaultyDisk counted;
        save_small(counted, folder.file("run"), save.step, ranks, save.keep);
        num_calls = counted.num_calls();
      }
      for (const Mishap mishap : mishaps) {
        for (int at = 0; at < num_calls; ++at) {
          const TemporaryFolder folder = TemporaryFolder::in_memory();
          const std::string path = folder.file("run");
          prepare(path);
          const bool killed = killed_in_child([&] {
            FaultyDisk disk(mishap, at);
            save_small(disk, path, save.step, ranks, save.keep);
          });
          ++points;
          const bool expected = mishap == Mishap::killed_before || mishap == Mishap::killed_after ||
                                mishap == Mishap::killed_half_written;
          std::string problem = killed == expected ? "" : "the mishap did not happen";
          if (problem.empty()) problem = broken_promise(path, save, ranks);
          if (!problem.empty()) ++bad;
          INFO(save.name, ", ", ranks, " ranks, mishap ", static_cast<int>(mishap), " at call ",
               at);
          CHECK(problem == "");
        }
      }
    }
  }
  std::printf("crash points %d, bad %d\n", points, bad);
  CHECK(points >= least);
}

}  // namespace

TEST_CASE(
    "checkpoint: complete after a kill, half a write, no space or a broken disk at every call") {
  check_every_call({2}, 500);
}

TEST_CASE("nightly: checkpoint: the same at every call of one to four ranks") {
  check_every_call({1, 2, 3, 4}, 2000);
}

namespace {

/// Saves one step after another, on 1 to 4 ranks, keeping one or two of them, until it is killed;
/// prints the durable ones.
[[noreturn]] void save_for_ever(const std::string& path, std::uint32_t seed,
                                std::atomic<std::int64_t>& durable) {
  std::mt19937 draw(seed);
  try {
    for (std::int64_t step = durable.load() + 1;; ++step) {
      save_small(system_disk(), path, step, 1 + static_cast<int>(draw() % 4),
                 1 + static_cast<int>(draw() % 2));
      durable.store(step);
    }
  } catch (const Error&) {
  }
  ::_exit(1);
}

/// Kills a job that saves, `times` times at a random moment; each continues from the previous one.
int bad_kills(int times, std::uint32_t seed) {
  const TemporaryFolder folder = TemporaryFolder::in_memory();
  const std::string path = folder.file("run");
  void* const shared = ::mmap(nullptr, sizeof(std::atomic<std::int64_t>), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(shared != MAP_FAILED);
  auto& durable = *new (shared) std::atomic<std::int64_t>(0);
  std::mt19937 draw(seed);
  int bad = 0;
  std::int64_t saves = 0;
  for (int i = 0; i < times; ++i) {
    const std::int64_t before = durable.load();
    const pid_t child = ::fork();
    if (child == 0) save_for_ever(path, seed + static_cast<std::uint32_t>(i), durable);
    std::this_thread::sleep_for(std::chrono::microseconds(draw() % 20'000));
    ::kill(child, SIGKILL);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    std::string problem = WIFSIGNALED(status) ? "" : "a save failed";
    const std::int64_t acknowledged = durable.load(),
                       newest = acknowledged == 0 ? 0 : newest_whole(path, problem);
    // One more than printed may be durable.
    if (problem.empty() && newest != acknowledged && newest != acknowledged + 1)
      problem = "the newest is " + std::to_string(newest) + ", not " + std::to_string(acknowledged);
    if (!problem.empty()) ++bad;
    INFO("kill ", i, " of seed ", seed);
    CHECK(problem == "");
    saves += acknowledged - before;
    durable.store(std::max(acknowledged, newest));
  }
  std::printf("%d kills at random times beside %lld saves, bad %d\n", times,
              static_cast<long long>(saves), bad);
  ::munmap(shared, sizeof(std::atomic<std::int64_t>));
  return bad;
}

}  // namespace

TEST_CASE("checkpoint: complete after kills at random times") { CHECK(bad_kills(50, 1) == 0); }

TEST_CASE("nightly: checkpoint: killed at random times, 20,000 times") {
  CHECK(bad_kills(20'000, 2) == 0);
}

namespace {

/// The control: files are overwritten in place.
void save_in_place(Disk& disk, const std::string& path) {
  constexpr std::int64_t step = 10;
  const TemporaryFolder scratch = TemporaryFolder::in_memory();
  save_small(system_disk(), scratch.file("run"), step, 3);
  const fs::path to = fs::path(path) / checkpoint_name(step);
  const OpenFile folder(disk, disk.open_root(to.c_str()));
  for (const auto& entry :
       fs::directory_iterator(scratch.file("run") + "/" + checkpoint_name(step))) {
    const std::string name = entry.path().filename().string();
    std::ifstream stream(entry.path(), std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(stream)),
                            std::istreambuf_iterator<char>());
    const bool there = fs::exists(to / name);
    if (there && disk.remove(folder.handle(), name.c_str()) != 0)
      throw Error(ErrorCode::io, "remove");
    const OpenFile file(disk, disk.create(folder.handle(), name.c_str()));
    if (!file.is_open() ||
        disk.write(file.handle(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
      throw Error(ErrorCode::io, "write");
  }
}

}  // namespace

TEST_CASE("checkpoint: control: overwriting in place loses the only one") {
  int points = 0, lost = 0;
  for (const Mishap mishap : {Mishap::killed_before, Mishap::killed_after,
                              Mishap::killed_half_written, Mishap::no_space, Mishap::io_error}) {
    for (int at = 1; at < 11; ++at) {  // nothing happens before the first call
      const TemporaryFolder folder = TemporaryFolder::in_memory();
      const std::string path = folder.file("run");
      save_small(system_disk(), path, 10, 2);
      killed_in_child([&] {
        FaultyDisk disk(mishap, at);
        save_in_place(disk, path);
      });
      ++points;
      std::string problem;
      if (newest_whole(path, problem) < 0) ++lost;
    }
  }
  std::printf("in place: %d of %d lost\n", lost, points);
  CHECK(lost * 5 >= points * 4);
}

TEST_CASE("checkpoint: a clock set back, and file times, have no effect") {
  const TemporaryFolder folder = TemporaryFolder::in_memory();
  const std::string path = folder.file("run");
  for (const std::int64_t step : {5, 10}) save_small(system_disk(), path, step, 2);
  const auto now = fs::file_time_type::clock::now();
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    const bool newest = entry.path().string().find(checkpoint_name(10)) != std::string::npos;
    fs::last_write_time(entry.path(), now + std::chrono::hours(newest ? -200000 : 100000));
  }
  std::string problem;
  CHECK(newest_whole(path, problem) == 10);
  CHECK(problem == "");
  save_small(system_disk(), path, 11, 2, 2);
  CHECK(CheckpointRoot(path).steps() == std::vector<std::int64_t>{10, 11});
  CHECK(CheckpointRoot(path).latest() == 11);
}

TEST_CASE("checkpoint: a second saver gets an error that names the first") {
  const TemporaryFolder folder = TemporaryFolder::in_memory();
  const CheckpointRoot root = CheckpointRoot::lock(folder.file("run"));
  try {
    CheckpointRoot::lock(folder.file("run"));
    FAIL("locked twice");
  } catch (const Error& error) {
    const std::string text = error.what();
    CHECK(text.find("belongs to process " + std::to_string(::getpid())) != std::string::npos);
  }
}

}  // namespace checkpoint_crash_test
