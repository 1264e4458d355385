// zeroproof train: start, end and resume by a user, and its messages about folders that it cannot
// continue from.

#include <doctest.h>

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "common/io/checkpoint/checkpoint_reader.hpp"
#include "tests/verification/cli/cli_support.hpp"
#include "tests/verification/tools/train/job_support.hpp"

using namespace zeroproof;
using namespace zeroproof::tests;
using verification::ReadLog;

namespace fs = std::filesystem;

namespace {

constexpr const char* tiny = "train --workload byte_gpt_tiny --dtype fp16 ";
constexpr const char* three_ranks = "--world threads:3 --stage 2 ";

CliResult train(const std::string& words) { return run_cli(tiny + words); }

/// "state 5669409a...", or "" if the run reported none.
std::string state_of(const CliResult& result) {
  for (const std::string& line : verification::lines_of(result.out)) {
    if (line.starts_with("state ")) return line.substr(0, 38);
  }
  return "";
}

int unfinished(const std::string& folder) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator(folder))
    count += entry.path().filename().string()[0] == '.' ? 1 : 0;
  return count;
}

/// A run of six steps with checkpoints of 2, 4 and 6, which tests copy and damage.
class Saved {
 public:
  Saved() : folder_(TemporaryFolder::in_memory()) {
    const CliResult result =
        train(three_ranks + ("--save-every 2 --checkpoint " + quoted(folder_.file("run"))));
    CAPTURE(result.err);
    REQUIRE(result.exit_code == 0);
    REQUIRE(CheckpointRoot(folder_.file("run")).steps() == std::vector<std::int64_t>{2, 4, 6});
  }

  std::string copy() {
    const std::string path = folder_.file("copy" + std::to_string(copies_++));
    fs::copy(folder_.file("run"), path, fs::copy_options::recursive);
    return path;
  }
  std::string run() const { return folder_.file("run"); }
  std::string file(const std::string& name) const { return folder_.file(name); }

 private:
  TemporaryFolder folder_;
  int copies_ = 0;
};

void flip_in_the_middle(const fs::path& path) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  const auto middle = static_cast<std::streamoff>(fs::file_size(path) / 2);
  file.seekg(middle);
  const char byte = static_cast<char>(file.get() ^ 4);
  file.seekp(middle);
  file.put(byte);
}

}  // namespace

TEST_CASE("train: a folder that has checkpoints is resumed, or left unchanged") {
  Saved saved;
  const std::string there = " --checkpoint " + quoted(saved.run());
  expect_refusal(tiny + (three_ranks + there), "has 3 checkpoints already");
  expect_refusal(tiny + (three_ranks + there), "--resume");
  const CliResult again = train(three_ranks + there + " --resume");
  CHECK(again.exit_code == 0);
  CHECK(again.out.find("nothing was left to do: step 6 of 6 is made") != std::string::npos);
  // On other ranks, and for more steps: the state of an uninterrupted run.
  const std::string whole = state_of(train("--world self --stage 0 --steps 9"));
  CHECK(whole.size() == 38);
  CHECK(state_of(train("--world threads:2 --stage 3 --steps 9 --resume --checkpoint " +
                       quoted(saved.copy()))) == whole);
  CHECK(state_of(train("--world threads:7 --stage 1 --impl host-fused --steps 9 --async "
                       "--save-every 1 --keep 2 --resume "
                       "--checkpoint " +
                       quoted(saved.copy()))) == whole);
#ifdef ZP_HAVE_MPI
  CHECK(state_of(train("--world mpi:2 --stage 2 --steps 9 --resume --checkpoint " +
                       quoted(saved.copy()))) == whole);
#endif
  // A folder without checkpoints starts a new run.
  const CliResult first =
      train("--world self --steps 2 --resume --checkpoint " + quoted(saved.file("new")));
  CHECK(first.exit_code == 0);
  CHECK(first.out.find("from the beginning") != std::string::npos);
}

TEST_CASE("train: a folder of another training, or of none, is refused and described") {
  Saved saved;
  const auto refused = [&](const std::string& words, const std::string& says) {
    expect_refusal(words + " --steps 8 --resume --checkpoint " + quoted(saved.run()), says);
  };
  const std::string self = std::string(tiny) + "--world self --stage 0 ";
  for (const std::string rule : {"lion", "muon"})
    refused(self + "--recipe " + rule,
            "is of another training: it has optimizer.rule = 'adamw', and here it is "
            "optimizer.rule = '" +
                rule + "'");
  refused(self + "--seed 2", "run.seed = 1, and here it is run.seed = 2");
  refused(self + "--micro-batches 6", "run.micro_batches = 7");
  refused("train --workload byte_gpt_tiny --dtype bf16 --world self",
          "its dtype is fp16, and here it is bf16");
  refused("train --workload byte_gpt --dtype fp16 --world self", "its workload is byte_gpt_tiny");
  const std::string other = saved.file("text");
  std::ofstream(other) << std::string(4000, 'a');
  refused(self + "--text " + quoted(other), "trained on other bytes");

  const std::string file = saved.file("file");
  std::ofstream(file) << "x";
  expect_refusal(self + "--resume --checkpoint " + quoted(file),
                 "cannot be opened: Not a directory");
  expect_refusal(self + "--checkpoint " + quoted(saved.file("no/folder")),
                 "cannot be created: No such file or directory");
  expect_refusal(self + "--save-every 2", "--save-every was given without --checkpoint");
  expect_refusal(self + "--keep 2", "--keep was given without --checkpoint");
  expect_refusal(self + "--async", "--async was given without --checkpoint");
  expect_refusal(self + "--resume", "--resume was given without --checkpoint");
  expect_refusal(self + "--allow-fallback --checkpoint " + quoted(saved.file("z")),
                 "--allow-fallback was given without");
  for (const char* number : {"0", "-1", "two", "2x", "1e3", "99999999999999999999"})
    expect_refusal(self + "--save-every " + number + " --checkpoint " + quoted(saved.file("z")),
                   "expected a number of steps");
  CHECK_FALSE(fs::exists(saved.file("z")));
}

TEST_CASE(
    "train: a damaged newest checkpoint is exit 7 and its damage is named; an older one is used on "
    "request") {
  Saved saved;
  struct Damage {
    const char* name;
    std::function<void(const fs::path& newest)> act;
    const char* says;
  };
  const fs::path one = "rank-00001.safetensors", manifest = "manifest.json";
  const Damage damages[] = {
      {"missing", [&](const fs::path& at) { fs::remove(at / one); },
       "rank-00001.safetensors cannot be opened"},
      {"stale",
       [&](const fs::path& at) {
         fs::copy_file(at.parent_path() / "step-00000004" / one, at / one,
                       fs::copy_options::overwrite_existing);
       },
       "rank-00001.safetensors is damaged in chunk 0"},
      {"swapped",
       [&](const fs::path& at) {
         fs::copy_file(at / "rank-00002.safetensors", at / one,
                       fs::copy_options::overwrite_existing);
       },
       "rank-00001.safetensors has "},
      {"a bit", [&](const fs::path& at) { flip_in_the_middle(at / one); },
       "rank-00001.safetensors is damaged in chunk 0"},
      {"longer", [&](const fs::path& at) { std::ofstream(at / one, std::ios::app) << "x"; },
       "rank-00001.safetensors has "},
      {"shorter",
       [&](const fs::path& at) { fs::resize_file(at / one, fs::file_size(at / one) - 1); },
       "rank-00001.safetensors has "},
      {"a link",
       [&](const fs::path& at) {
         fs::rename(at / one, at.parent_path() / "elsewhere");
         fs::create_symlink("../elsewhere", at / one);
       },
       "rank-00001.safetensors cannot be opened"},
      {"one too many", [&](const fs::path& at) { std::ofstream(at / "more") << "x"; }, "more"},
      {"manifest lost", [&](const fs::path& at) { fs::remove(at / manifest); }, "manifest.json"},
      {"manifest empty", [&](const fs::path& at) { fs::resize_file(at / manifest, 0); },
       "manifest.json"},
      {"manifest edited", [&](const fs::path& at) { flip_in_the_middle(at / manifest); },
       "manifest.json"},
      {"a way out",
       [&](const fs::path& at) {
         std::string text = read_file(at / manifest);
         text.replace(text.find("rank-00001.safetensors"), 22, "../step-00000004/rank-");
         std::ofstream(at / manifest) << text;
       },
       "manifest.json"},
  };
  const std::string whole = state_of(train("--world self --stage 0 --steps 8"));
  for (const Damage& damage : damages) {
    CAPTURE(std::string(damage.name));
    const std::string path = saved.copy();
    damage.act(fs::path(path) / "step-00000006");
    const std::string words =
        "--world threads:2 --stage 1 --steps 8 --resume --checkpoint " + quoted(path);
    const CliResult refused = train(words);
    expect_refusal(refused, damage.says, 7);
    CHECK(refused.err.find("step-00000006") != std::string::npos);
    CHECK(refused.err.find("--allow-fallback uses the newest undamaged one, of step 4 or before") !=
          std::string::npos);
    const CliResult older = train(words + " --allow-fallback");
    CAPTURE(older.err);
    CHECK(older.exit_code == 0);
    CHECK(older.out.find("from step 4: ") != std::string::npos);
    CHECK(older.err.find("not used: ") != std::string::npos);
    CHECK(state_of(older) == whole);
  }
}

TEST_CASE("train: a folder that another run saves in is refused, and the run is named") {
  const TemporaryFolder folder = TemporaryFolder::in_memory();
  const CheckpointRoot held = CheckpointRoot::lock(folder.file("a"));
  const CliResult result =
      train("--world threads:3 --stage 1 --resume --checkpoint " + quoted(folder.file("a")));
  expect_refusal(result, "belongs to");
  CHECK(result.err.find(std::to_string(::getpid())) != std::string::npos);
}

TEST_CASE("train: a state has its digest whether or not the last step was skipped") {
  // Steps 3, 16 and 17 of this run overflow: they change only the scale.
  const auto after = [](const char* steps) {
    return train(std::string("--world self --steps ") + steps);
  };
  const CliResult two = after("2"), three = after("3"), sixteen = after("16");
  for (const CliResult* skipped : {&three, &sixteen})
    CHECK(skipped->out.find("skipped: a gradient was not finite") != std::string::npos);
  CHECK(state_of(two).size() == 38);
  CHECK(state_of(three) == state_of(two));
  CHECK(state_of(sixteen) != state_of(two));
}

TEST_CASE(
    "train: a signal ends it after its step, with a checkpoint that continues with the same bits") {
  const TemporaryFolder folder = TemporaryFolder::in_memory();
  for (const auto& [signal, code] : {std::pair{"INT", 130}, std::pair{"TERM", 143}}) {
    CAPTURE(std::string(signal));
    const std::string path = folder.file(signal);
    const std::string words =
        "' " + std::string(tiny) + three_ranks + "--checkpoint " + quoted(path);
    const std::string command = "timeout --foreground --preserve-status -s " + std::string(signal) +
                                " 0.7 '" + build_folder() + "/zeroproof" + words +
                                " --steps 1000000 >/dev/null 2>&1";
    const int status = std::system(command.c_str());
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == code);
    const std::vector<std::int64_t> steps = CheckpointRoot(path).steps();
    REQUIRE(steps.size() == 1);
    CHECK(unfinished(path) == 0);
    const std::string to = "--steps " + std::to_string(steps.back() + 3);
    CHECK(state_of(train("--world threads:2 --stage 3 --resume --checkpoint " + quoted(path) + " " +
                         to)) == state_of(train("--world self --stage 0 " + to)));
  }
}

TEST_CASE(
    "train: killed twenty times at any moment, it ends with the bits of an uninterrupted run") {
  const TemporaryFolder folder = TemporaryFolder::in_memory();
  const std::string path = folder.file("a"), whole = folder.file("whole");
  constexpr int steps = 300;
  const std::string last = "--steps " + std::to_string(steps) + " ";
  const CliResult through = train("--world self --stage 0 " + last + "--log " + quoted(whole));
  REQUIRE(through.exit_code == 0);
  std::mt19937 random(2026);
  std::int64_t newest = 0;
  int killed = 0;
  for (int i = 0; i < 20; ++i) {
    CAPTURE(i);
    const std::string ranks = std::to_string(1 + i % 4), stage = std::to_string(i % 4);
    const std::string command =
        "timeout -s KILL 0." + std::to_string(1030 + random() % 150).substr(1) + " '" +
        build_folder() + "/zeroproof' " + tiny + last + "--world threads:" + ranks + " --stage " +
        stage + (i % 2 == 0 ? " --async" : "") + " --save-every 1 --keep 3 --resume --checkpoint " +
        quoted(path) + " >/dev/null 2>&1";
    const int status = std::system(command.c_str());
    killed += WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
    // No saved step is lost, and every folder with a checkpoint's name is complete.
    const std::vector<std::int64_t> there = CheckpointRoot(path).steps();
    for (const std::int64_t step : there)
      CHECK_NOTHROW(CheckpointReader(CheckpointRoot(path), step).verify());
    const std::int64_t now = there.empty() ? 0 : there.back();
    CHECK(now >= newest);
    newest = now;
  }
  MESSAGE(killed << " of 20 runs were killed, the last one after step " << newest << " was saved");
  CHECK(killed >= 10);
  const CliResult end =
      train("--world threads:3 --stage 2 " + last + "--resume --checkpoint " + quoted(path));
  CAPTURE(end.err);
  CHECK(end.exit_code == 0);
  CHECK(unfinished(path) == 0);
  const ReadLog resumed = verification::read_log(path + "/log.jsonl"),
                expected = verification::read_log(whole);
  CHECK(resumed.steps.size() == steps);
  CHECK(!resumed.starts.empty());
  std::string run;
  for (const auto& start : resumed.starts) {
    CHECK(verification::training_digest(start.training) ==
          verification::training_digest(expected.starts.front().training));
    if (start.from > 0) CHECK(start.run == run);
    run = start.run;
  }
  for (const auto& [step, logged] : resumed.steps) {
    CAPTURE(step);
    CHECK(difference(expected.steps.at(step).record, logged.record) == "");
  }
  const CliResult audited = run_cli("audit " + quoted(path));
  CAPTURE(audited.err);
  CHECK(audited.exit_code == 0);
  CHECK(audited.out.find("steps 1 to 300, ") == 0);
  CHECK(audited.out.find(", " + std::to_string(CheckpointRoot(path).steps().size()) +
                         " checkpoints, all as logged") != std::string::npos);
}

TEST_CASE("train: a log is continued on other ranks, also after an incomplete line") {
  Saved saved;
  const std::string path = saved.copy(), log = path + "/log.jsonl";
  const std::string whole = read_file(log);
  const auto resumed = [&](const std::string& words) {
    CHECK(train(words + " --resume --checkpoint " + quoted(path)).exit_code == 0);
    const CliResult result = run_cli("audit " + quoted(path));
    CAPTURE(result.err);
    CHECK(result.exit_code == 0);
    return result.out;
  };
  std::ofstream(log, std::ios::app) << "{\"step\":7,\"applied";
  CHECK(resumed("--world threads:2 --stage 3 --steps 8 --async").find("steps 1 to 8, ") == 0);
  CHECK(read_file(log).starts_with(whole + "{\"training\":"));
  // Lines after the checkpoint that is continued.
  fs::remove_all(path + "/step-00000008");
  CHECK(resumed("--world self --steps 9 --save-every 1").find("steps 1 to 9, ") == 0);
  // Cut to that checkpoint by hand.
  std::ofstream(log, std::ios::binary) << whole;
  for (const char* step : {"7", "8", "9"}) fs::remove_all(path + "/step-0000000" + step);
  CHECK(resumed("--world threads:3 --stage 1 --steps 7").find("steps 1 to 7, ") == 0);
  // With --log.
  const std::string other = saved.file("other");
  CHECK(train("--world self --steps 9 --resume --log " + quoted(other) + " --checkpoint " +
              quoted(path))
            .exit_code == 0);
  CHECK(run_cli("audit " + quoted(path) + " --log " + quoted(other)).out.find("steps 8 to 9, ") ==
        0);
  expect_refusal(run_cli("audit " + quoted(path)), "ends with step 7, before ", 7);
  // Nothing was left to do, so the log has no step.
  const std::string none = saved.file("none");
  CHECK(train("--world self --steps 9 --resume --log " + quoted(none) + " --checkpoint " +
              quoted(path))
            .exit_code == 0);
  for (const char* more : {"", " --steps 9", " --reference", " --world threads:2"})
    expect_refusal(run_cli("audit " + quoted(path) + " --log " + quoted(none) + more),
                   "has no steps (nothing was compared)", 4);
  const std::string file = saved.file("file");
  for (const char* text : {"abc", "abc\n"}) {
    std::ofstream(file, std::ios::binary) << text;
    expect_refusal(std::string(tiny) + "--world self --log " + quoted(file),
                   "cannot be continued: its last line does not end with a hash");
    CHECK(read_file(file) == text);
  }
}

TEST_CASE(
    "train --fault: a planted fault does not stop the training, and changes losses and state") {
  const TemporaryFolder folder = TemporaryFolder::in_memory();
  const std::string words = std::string(tiny) + "--world threads:4 --stage 0 --steps 5 ";
  const auto log_of = [&](const std::string& more) {
    const CliResult result =
        run_cli(words + more + " --log " + quoted(folder.file("log")), "zeroproof-faults");
    CAPTURE(result.err);
    REQUIRE(result.exit_code == 0);
    CHECK((result.out.find("\nplanted: sum-instead-of-mean\n") != std::string::npos) ==
          !more.empty());
    return std::pair(state_of(result), read_file(folder.file("log")));
  };
  const auto right = log_of(""), again = log_of(""), wrong = log_of("--fault sum-instead-of-mean");
  CHECK(right.first == again.first);
  CHECK(right.first != wrong.first);
  CHECK(right.second != wrong.second);
  expect_refusal(run_cli(words + "--fault lbfgs-dot-in-fp32", "zeroproof-faults"), "one of L-BFGS");
  expect_refusal(run_cli(words + "--fault sum-instead-of-men", "zeroproof-faults"),
                 "did you mean sum-instead-of-mean?");
  expect_refusal(words + "--fault sum-instead-of-mean", "zeroproof-faults", 3);
}

#ifdef ZP_HAVE_MPI
namespace {

/// Processes that have a word in their command line, by the name of their program.
std::vector<std::pair<pid_t, std::string>> processes_with(const std::string& word) {
  std::vector<std::pair<pid_t, std::string>> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string line = read_file(entry.path() / "cmdline");
    if (line.find(word) == std::string::npos || line.starts_with("sh")) continue;
    found.emplace_back(static_cast<pid_t>(std::stol(name)),
                       fs::path(line.substr(0, line.find('\0'))).filename().string());
  }
  return found;
}

template <class Condition>
bool within(std::chrono::seconds limit, const Condition& condition) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
  }
  return true;
}

}  // namespace

TEST_CASE("train: an error of all ranks is one sentence, without explanations of mpirun") {
  Saved saved;
  const std::string path = saved.copy();
  flip_in_the_middle(fs::path(path) / "step-00000006" / "rank-00001.safetensors");
  const CliResult result =
      train("--world mpi:3 --stage 2 --steps 8 --resume --checkpoint " + quoted(path));
  CAPTURE(result.err);
  CHECK(result.exit_code == 7);
  CHECK(result.err.starts_with("zeroproof: rank "));
  CHECK(std::ranges::count(result.err, '\n') == 1);
}

TEST_CASE("train: a rank that is killed ends the job, and costs no checkpoint") {
  const TemporaryFolder folder = TemporaryFolder::in_memory();
  const std::string path = folder.file("killed-rank"), code = folder.file("code");
  const std::string job =
      "( '" + build_folder() + "/zeroproof' " + tiny +
      "--world mpi:3 --stage 2 --steps 1000000 --save-every 1 --keep 2 --checkpoint " +
      quoted(path) + " >" + quoted(folder.file("out")) + " 2>&1; echo $? >" + quoted(code) + " ) &";
  REQUIRE(std::system(job.c_str()) == 0);
  REQUIRE(within(std::chrono::seconds{60},
                 [&] { return fs::exists(path) && !CheckpointRoot(path).steps().empty(); }));
  pid_t victim = 0;
  for (const auto& [pid, program] : processes_with(path)) {
    if (program == "zeroproof") victim = std::max(victim, pid);
  }
  REQUIRE(victim > 0);
  REQUIRE(::kill(victim, SIGKILL) == 0);
  const auto killed = std::chrono::steady_clock::now();
  const bool gone = within(std::chrono::seconds{60},
                           [&] { return fs::exists(code) && processes_with(path).empty(); });
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - killed).count();
  MESSAGE("all ranks were gone after " << seconds << " s");
  CHECK(gone);
  CHECK(read_file(code) == "6\n");
  const std::int64_t newest = CheckpointRoot(path).steps().back();
  CHECK_NOTHROW(CheckpointReader(CheckpointRoot(path), newest).verify());
  const std::string to = "--steps " + std::to_string(newest + 3);
  CHECK(state_of(train("--world threads:2 --stage 1 --resume --checkpoint " + quoted(path) + " " +
                       to)) == state_of(train("--world self --stage 0 " + to)));
  CHECK(unfinished(path) == 0);
}
#endif
