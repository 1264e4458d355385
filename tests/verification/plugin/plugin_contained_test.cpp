// Whatever a plug-in does becomes a verdict of one sentence, and the next case is as if nothing had happened.

#include <doctest.h>

#include <chrono>

#include "tests/support/paths.hpp"
#include "verification/ops/op_case.hpp"
#include "verification/plugin/plugin_candidate.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;

/// A library of this folder, in a process of build/zeroproof.
std::shared_ptr<Plugin> library(const std::string& name) {
  PluginLimits limits;
  limits.seconds = 2;
  return std::make_shared<Plugin>(tests::build_folder() + "/plugins/" + name + ".so", limits,
                                  tests::build_folder() + "/zeroproof");
}

/// Results of clip, in which they misbehave, of clip_value, in which they do not, and of clip again.
std::vector<Result> judged(const std::string& name, Fill fill = Fill::training) {
  const std::shared_ptr<const OpCandidate> candidate = plugin_candidate(library(name));
  std::vector<Result> results;
  for (const char* op : {"clip", "clip_value", "clip"}) {
    results.push_back(run_op_cases({{find_op(op), candidate.get(), fill}}, {}).front());
  }
  return results;
}

void expect(const std::string& name, Status status, const std::string& sentence) {
  CAPTURE(name);
  const std::vector<Result> results = judged(name);
  for (const int k : {0, 2}) {
    const Result& clip = results[static_cast<std::size_t>(k)];
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

TEST_CASE("a plug-in that behaves passes") {
  for (const Result& result : judged("honest_only")) CHECK(result.status == Status::pass);
}

TEST_CASE("a plug-in that dies is told from one that ends itself") {
  expect("segv", Status::crashed, "the plug-in died of SIGSEGV: it used memory that is not there in clip");
  expect("aborts", Status::crashed, "it gave up in clip; it last said: invariant?[2J broken");
  expect("exits", Status::crashed, "ended its process with exit code 0 in clip");
  expect("closes", Status::crashed, "closed file descriptors that are not its own in clip");
}

TEST_CASE("a plug-in gets no more than its share") {
  expect("loops", Status::hung, "did not come back in clip within 2 s");
  expect("allocates", Status::crashed, "in clip");
  expect("forks", Status::crashed, "it started a process, which a plug-in may not in clip");
  expect("writes_file", Status::crashed, "it wrote more to a file than it may in clip");
  expect("floods_stdout", Status::error,
         "wrote more than 1048576 bytes on its standard output and error in clip");
  expect("floods_stderr", Status::error, "it last said: ");
}

TEST_CASE("a plug-in writes its outputs and nothing else, and then no more") {
  expect("writes_behind", Status::fail, "grad was written outside its bounds");
  expect("writes_before", Status::fail, "was written outside its bounds");
  expect("writes_input", Status::fail, "the input unscaled_grad was edited");
  expect("writes_late", Status::fail, "wrote grad after");
  expect("writes_later", Status::fail, "had returned");
}

TEST_CASE("a plug-in leaves its thread as it was") {
  expect("rounds_up", Status::fail, "left the floating-point environment changed in clip: ");
  expect("flushes", Status::fail, "flush-to-zero is on");
  expect("blocks_signals", Status::fail, "left the signal mask changed in clip");
  expect("says_no", Status::error, "returned 7 in clip: out of registers");
}

TEST_CASE("what a plug-in did not compute is not taken for a result") {
  expect("cheat_idle", Status::fail, "differs from the reference");
  expect("cheat_constant", Status::fail, "differs from the reference");
  expect("cheat_stale", Status::fail, "differs from the reference");
  expect("cheat_edits", Status::fail, "the input unscaled_grad was edited");
  expect("cheat_searches", Status::fail, "differs from the reference");
  expect("cheat_after_return", Status::fail, "");
  expect("cheat_remembers", Status::fail, "differs from the reference");
}

TEST_CASE("a call of a process that is there takes less than 5 ms, most of it waiting for late writes") {
  const std::shared_ptr<Plugin> plugin = library("honest_only");
  std::vector<float> grad(1000, 1.0F);
  const PluginCall call = {
      "clip_value", 1, {{"grad", {grad.data(), DType::fp32, 1000}, true, true}}, {{"clip_value", 0.5}}};
  plugin->call(call);
  CHECK(grad[999] == 0.5F);
  constexpr int calls = 200;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) plugin->call(call);
  const double each = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / calls;
  MESSAGE("per call: " << 1e3 * each << " ms");
  CHECK(each < 5e-3);
}
