// Any behaviour of a plug-in becomes a verdict of one sentence, without an effect on the next case.

#include <doctest.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "tests/support/paths.hpp"
#include "tests/verification/interfaces/plugin/reply_size.h"
#include "verification/cases/run_report.hpp"
#include "verification/interfaces/plugin/plugin_candidate.hpp"
#include "verification/ops/op_case.hpp"

namespace plugin_contained_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;

static_assert(sizeof(PluginReply) == ZP_REPLY_BYTES,
              "libraries that answer in its place need the size");

/// A library of this folder, in a process of build/zeroproof-plugin.
std::shared_ptr<Plugin> library(const std::string& name) {
  PluginLimits limits;
  limits.seconds = 2;
  return std::make_shared<Plugin>(tests::build_folder() + "/plugins/" + name + ".so", limits,
                                  tests::build_folder() + "/zeroproof-plugin");
}

/// Results of clip, in which the library misbehaves, of clip_value, in which it does not, and of
/// clip again.
std::vector<Result> judged(const std::string& name, Fill fill = Fill::training,
                           const OpRunOptions& options = {}) {
  const std::shared_ptr<const OpCandidate> candidate = plugin_candidate(library(name));
  std::vector<Result> results;
  for (const char* op : {"clip", "clip_value", "clip"}) {
    results.push_back(run_op_cases({{find_op(op), candidate.get(), fill}}, options).front());
  }
  return results;
}

void expect(const std::string& name, Status status, const std::string& sentence) {
  CAPTURE(name);
  const std::vector<Result> results = judged(name);
  for (const int k : {0, 2}) {
    const Result& clip = results[k];
    CAPTURE(clip.reason);
    CHECK(clip.status == status);
    CHECK(clip.reason.find(sentence) != std::string::npos);
    CHECK(clip.reason.find('\n') == std::string::npos);
    CHECK(clip.reason.find('\x1b') == std::string::npos);
  }
  CAPTURE(results[1].reason);
  CHECK(results[1].status == Status::pass);  // clip_value
  CHECK(results[1].compared > 0);
}

}  // namespace

TEST_CASE("plug-in: a correct library passes") {
  for (const Result& result : judged("honest_only")) CHECK(result.status == Status::pass);
}

TEST_CASE("plug-in: death by signal and exit are distinguished") {
  expect("segv", Status::crashed,
         "the plug-in died of SIGSEGV: it accessed unmapped memory in clip");
  expect("aborts", Status::crashed, "it aborted in clip; its last output: invariant?[2J broken");
  expect("exits", Status::crashed, "ended its process with exit code 0 in clip");
  expect("closes", Status::crashed, "closed file descriptors of the harness in clip");
}

TEST_CASE("plug-in: limits of memory, time, files and output hold") {
  expect("loops", Status::hung, "did not return in clip within 2 s");
  expect("allocates", Status::crashed, "in clip");
  expect("forks", Status::crashed, "it started a process, which is forbidden in clip");
  for (const char* name : {"spawns", "clones_sibling", "forks_by_32_bits"})
    expect(name, Status::crashed, "it started a process, which is forbidden in clip");
  expect("writes_file", Status::crashed, "it exceeded the limit of file size in clip");
  expect("floods_stdout", Status::error,
         "wrote more than 1048576 bytes on its standard output and error in clip");
  expect("floods_stderr", Status::error, "its last output: ");
}

TEST_CASE("plug-in: the process of the judge cannot be reached") {
  const std::string refused = "returned 42 in clip";
  std::atomic<bool> over = false;
  std::thread other([&] { over.wait(false); });  // some attacks are on it
  for (const char* name : {"shrinks_memory", "kills_judge", "stops_judge", "limits_judge",
                           "slows_judge", "reaches_threads", "reaches_groups", "traces_judge",
                           "watches_judge", "stops_terminal", "owns_signal"})
    expect(name, Status::error, refused);
  expect("enlarges_memory", Status::tampered, "the plug-in made the shared memory larger");
  expect("calls_x32", Status::crashed, "died of SIGSYS");
  if (landlock_version() > 0) {
    for (const char* name : {"opens_judge_memory", "opens_judge_files", "wants_to_live"})
      expect(name, Status::error, refused);
  }
  if (landlock_version() >= landlock_with_terminals) {
    const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
    REQUIRE(::grantpt(terminal) == 0);
    REQUIRE(::unlockpt(terminal) == 0);
    ::setenv("ZP_TEST_TERMINAL", ::ptsname(terminal), 1);
    expect("writes_terminal", Status::error, refused);
    ::close(terminal);
  }
  over = true;
  over.notify_all();
  other.join();
}

TEST_CASE("plug-in: shared memory that cannot grow stays as it is") {
  PluginArena arena;
  std::vector<float> some(8, 1.0F), many(1 << 20, 1.0F);
  const auto put = [&](std::vector<float>& values) {
    const auto numel = static_cast<std::int64_t>(values.size());
    arena.put({{"grad", {values.data(), DType::fp32, numel}, true, true}});
  };
  put(some);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small = {64 << 10, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &small);
  CHECK_THROWS_AS(put(many), Error);
  put(some);
  CHECK(arena.changed_since(PluginArena::Whose::all).empty());
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  put(many);
}

TEST_CASE("plug-in: writes outside of outputs or after the call are found") {
  expect("writes_behind", Status::fail, "grad was written outside its bounds");
  expect("writes_before", Status::fail, "was written outside its bounds");
  expect("writes_input", Status::tampered, "the input unscaled_grad was edited");
  expect("writes_late", Status::tampered, "wrote grad after");
  // Where other processes want the core, its thread may wake after zeroproof has ceased to look.
  const auto found = [] {
    const std::vector<Result> results = judged("writes_later");
    const auto is_tampered = [](const Result& clip) {
      return clip.status == Status::tampered &&
             clip.reason.find("had returned") != std::string::npos;
    };
    return is_tampered(results[0]) && results[1].status == Status::pass && is_tampered(results[2]);
  };
  CHECK((found() || found() || found() || found() || found()));
}

TEST_CASE("plug-in: a changed thread environment is found") {
  expect("rounds_up", Status::fail, "left the floating-point environment changed in clip: ");
  expect("flushes", Status::fail, "flush-to-zero is on");
  expect("blocks_signals", Status::fail, "left the signal mask changed in clip");
  expect("says_no", Status::error, "returned 7 in clip: out of registers");
}

TEST_CASE("plug-in: results not computed from the inputs are tampered") {
  const std::string repeated =
      "bit for bit, those of a call before: they were not computed from these inputs";
  expect("cheat_constant", Status::tampered, repeated);
  expect("cheat_stale", Status::tampered, repeated);
  expect("cheat_remembers", Status::tampered,
         "repeat, bit for bit, those of the same call for other inputs");
  expect("cheat_lags", Status::tampered, repeated);
  expect("cheat_symbols", Status::tampered, repeated);
  expect("cheat_reads_ahead", Status::tampered, repeated);
}

TEST_CASE("plug-in: edited inputs, late writes and foreign replies are tampered") {
  expect("cheat_edits", Status::tampered, "the input unscaled_grad was edited");
  expect("cheat_after_return", Status::tampered, "had returned");
  expect("cheat_answers", Status::tampered, "wrote to the connection of the harness ");
  expect("cheat_answers_first", Status::tampered, "wrote to the connection of the harness in clip");
  expect("cheat_chats", Status::tampered, "wrote to the connection of the harness in clip");
}

TEST_CASE("plug-in: searching memory finds no result") {
  expect("cheat_idle", Status::fail, "differs from the reference");
  expect("cheat_searches", Status::fail, "differs from the reference");
}

TEST_CASE("plug-in: a case with few declined calls passes and reports them") {
  const Result some = judged("choosy_few")[0];
  CHECK(some.status == Status::pass);
  CHECK(some.compared > 0);
  CHECK(some.reason ==
        "24 of 576 calls were left out: the plug-in does not support this call of clip: not this");
}

TEST_CASE("plug-in: a case with a declined variant, size, seed or majority is mistrusted") {
  const auto check = [](const std::string& name, const std::string& missing) {
    CAPTURE(name);
    const Result some = judged(name)[0];
    CAPTURE(some.reason);
    CHECK(some.status == Status::mistrusted);
    CHECK(
        some.reason.find(" calls were left out: the plug-in does not support this call of clip") !=
        std::string::npos);
    CHECK(some.reason.find("; " + missing) != std::string::npos);
    OpRunOptions accepts;
    accepts.accepts_declined = true;
    CHECK(judged(name, Fill::training, accepts)[0].status == Status::pass);
  };
  check("choosy_variant", "no call of variant ");
  check("choosy_sizes", "no call of above 1025 elements was judged with seed 1");
  check("choosy_small", "no call of below 1023 elements was judged");
  check("choosy_seed", "no call was judged with seed 11400714819323198484");
  check("choosy_one_element",
        "no call of 1023 to 1025 elements was judged with seed 1140071481932");
  check("choosy_half_seed", "fewer than half of the elements were judged with seed 1140071481932");
}

TEST_CASE("plug-in: a case without any call is skipped") {
  const std::vector<Result> none = judged("choosy_none");
  CHECK(none[0].status == Status::skipped);
  CHECK(none[0].reason == "the plug-in does not support this call of clip: not this");
  CHECK(none[1].status == Status::pass);
  CHECK(judged("choosy_old")[0].status == Status::error);  // older libraries are not queried
}

TEST_CASE("plug-in: the report of a passing case counts skipped calls") {
  RunReport report;
  report.results = judged("choosy_few");
  const std::string text = to_text(report, {});
  CHECK(text.find("calls were left out") != std::string::npos);
  CHECK(text.find("3 pass, 0 fail") != std::string::npos);
}

TEST_CASE("plug-in: a second reply to the last call of a case is found") {
  const std::shared_ptr<Plugin> plugin = library("cheat_answers");
  std::vector<float> from(8, 1.0F), to(8);
  const PluginCall call = {"clip",
                           1,
                           {{"unscaled_grad", {from.data(), DType::fp32, 8}, true, false},
                            {"grad", {to.data(), DType::fp32, 8}, false, true}},
                           {{"clip_coef", 0.5}}};
  plugin->call(call);
  CHECK(to[7] == 0.5F);
  CHECK_THROWS_AS(plugin->settle(), CandidateFailure);
}

TEST_CASE("plug-in process: the duration of a call, mostly the wait for late writes") {
  const std::shared_ptr<Plugin> plugin = library("honest_only");
  std::vector<float> grad(1000, 1.0F);
  const PluginCall call = {"clip_value",
                           1,
                           {{"grad", {grad.data(), DType::fp32, 1000}, true, true}},
                           {{"clip_value", 0.5}}};
  plugin->call(call);
  CHECK(grad[999] == 0.5F);
  constexpr int calls = 200;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) plugin->call(call);
  const double each =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / calls;
  MESSAGE("per call: " << 1e3 * each << " ms");
}

TEST_CASE("plug-in process: the duration of a call that starts it") {
  std::vector<double> seconds;
  for (int i = 0; i < 15; ++i) {
    std::vector<float> grad(1000, 1.0F);
    const auto begin = std::chrono::steady_clock::now();
    library("honest_only")
        ->call({"clip_value",
                1,
                {{"grad", {grad.data(), DType::fp32, 1000}, true, true}},
                {{"clip_value", 0.5}}});
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    CHECK(grad[999] == 0.5F);
  }
  std::ranges::sort(seconds);
  MESSAGE("from loading it to the end of its process, median: " << 1e3 * seconds[7] << " ms, most "
                                                                << 1e3 * seconds[14] << " ms");
}

}  // namespace plugin_contained_test
