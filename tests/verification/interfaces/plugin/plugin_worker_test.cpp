// zeroproof-plugin, the program in which plug-ins run: its content, and the way zeroproof finds it.

#include <doctest.h>

#include <unistd.h>

#include <filesystem>
#include <memory>
#include <vector>

#include "tests/verification/cli/cli_support.hpp"
#include "verification/interfaces/plugin/operations.hpp"
#include "verification/interfaces/plugin/plugin_candidate.hpp"
#include "verification/ops/op_case.hpp"

namespace plugin_worker_test {

namespace {

using namespace zeroproof::tests;
using namespace zeroproof::verification;
namespace fs = std::filesystem;

std::string library(const std::string& name) {
  return quoted(build_folder() + "/plugins/" + name + ".so");
}

/// Parts of the mangled names of functions that could compute in a library's place.
std::vector<std::string> parts_of_implementations() {
  std::vector<std::string> parts = {"9zeroproof9reference", "9zeroproof4cuda4host"};
  for (const std::string& name : plugin_operations())
    parts.push_back(std::to_string(name.size()) + name);
  return parts;
}

/// A copy of zeroproof in a folder, with this script as its zeroproof-plugin; "": without one.
std::string copied_program(const TemporaryFolder& folder, const std::string& script) {
  fs::copy_file(build_folder() + "/zeroproof", folder.file("zeroproof"));
  if (!script.empty()) {
    fs::permissions(folder.write("zeroproof-plugin", "#!/bin/sh\n" + script + "\n"),
                    fs::perms::owner_all);
  }
  return folder.file("zeroproof");
}

/// The result of a shell command.
CliResult run_shell(const std::string& command) {
  const TemporaryFolder folder;
  const std::string whole = "{ " + command + "; } >" + quoted(folder.file("out")) + " 2>" +
                            quoted(folder.file("err")) + " </dev/null";
  const int status = std::system(whole.c_str());
  return {WEXITSTATUS(status), read_file(folder.file("out")), read_file(folder.file("err"))};
}

std::string judges_one_case(const std::string& program) {
  return quoted(program) + " verify op/clip/plugin/odd/fill:ties --plugin " +
         library("honest_only");
}

constexpr const char* sends_nothing = "exit 0";

}  // namespace

TEST_CASE("plug-in worker: no function of the reference or of production is in it") {
  for (const char* name : {"zeroproof-plugin", "zeroproof-plugin-sim"}) {
    const std::string worker = read_file(build_folder() + "/" + name);
    CAPTURE(name);
    CHECK(worker.find("12verification12WorkerDevice") != std::string::npos);  // it has symbols
    for (const std::string& part : parts_of_implementations()) {
      CAPTURE(part);
      CHECK(worker.find(part) == std::string::npos);
    }
  }
  const std::string all = read_file(build_folder() + "/zeroproof");
  for (const std::string& part : parts_of_implementations()) {  // it finds those that are there
    CAPTURE(part);
    CHECK(all.find(part) != std::string::npos);
  }
}

TEST_CASE("plug-in worker: a library that searches its process for the reference fails") {
  const CliResult result =
      run_cli("verify 'op/clip/plugin/*/fill:training' --plugin " + library("calls_reference"));
  CAPTURE(result.out);
  CHECK(result.exit_code == 1);
  CHECK(result.out.find("grad[0] differs from the reference") != std::string::npos);
  const std::string program = read_file(build_folder() + "/zeroproof");
  CHECK(program.find("_ZN9zeroproof9reference4clipE") != std::string::npos);  // still its name
}

TEST_CASE("plug-in worker: missing or of another build, nothing is judged") {
  const TemporaryFolder none, silent, old, unusable;
  expect_refusal(
      run_shell(judges_one_case(copied_program(none, ""))),
      "/zeroproof-plugin cannot be run: No such file or directory (plug-ins run in it, ");
  expect_refusal(run_shell(judges_one_case(copied_program(silent, sends_nothing))),
                 "/zeroproof-plugin is not of this build: it sent nothing and not 'zeroproof ");
  expect_refusal(run_shell(judges_one_case(copied_program(
                     old, "printf '%-96s' 'zeroproof 0.3.0 with messages 1/2/3/4' >&3; sleep 9"))),
                 "is not of this build: it sent 'zeroproof 0.3.0 with messages 1/2/3/4");
  const std::string program = copied_program(unusable, sends_nothing);
  fs::permissions(unusable.file("zeroproof-plugin"), fs::perms::owner_read);
  expect_refusal(run_shell(judges_one_case(program)), "cannot be run: Permission denied");
}

TEST_CASE("plug-in worker: removed during a run, a case is an error and not skipped") {
  const TemporaryFolder folder;
  const std::string worker = folder.file("worker");
  fs::copy_file(build_folder() + "/zeroproof-plugin", worker);
  const auto candidate = plugin_candidate(
      std::make_shared<Plugin>(build_folder() + "/plugins/segv.so", PluginLimits{}, worker));
  const auto judged = [&](const char* op) {
    return run_op_cases({{find_op(op), candidate.get(), Fill::ties}}, {}).front();
  };
  CHECK(judged("clip_value").status == Status::pass);
  fs::remove(worker);
  CHECK(judged("clip").status == Status::crashed);
  const Result result = judged("clip_value");
  CHECK(result.status == Status::error);
  CHECK(result.reason.find("cannot be run: No such file or directory") != std::string::npos);
}

TEST_CASE("plug-in worker: a program in its place has no more rights") {
  const TemporaryFolder folder;
  const std::string worker =
      folder.write("worker", "#!/bin/sh\necho $PPID >" + quoted(folder.file("ran")) +
                                 "\n: >/proc/$PPID/coredump_filter && : >" +
                                 quoted(folder.file("opened")) + "\n");
  fs::permissions(worker, fs::perms::owner_all);
  CHECK_THROWS_AS(Plugin(build_folder() + "/plugins/honest_only.so", PluginLimits{}, worker),
                  zeroproof::Error);
  CHECK(read_file(folder.file("ran")) == std::to_string(::getpid()) + "\n");
  CHECK(fs::exists(folder.file("opened")) == (landlock_version() == 0));
}

TEST_CASE("plug-in worker: the one beside the program runs, whatever PATH and folder name") {
  const TemporaryFolder folder;
  copied_program(folder, sends_nothing);
  fs::create_directory_symlink(build_folder(), folder.file("link"));
  const std::string there = "cd " + quoted(folder.file("")) + "; PATH=" + quoted(folder.file("")) +
                            ":.:$PATH; export PATH; ";
  for (const std::string& program :
       {build_folder() + "/zeroproof", folder.file("link/zeroproof")}) {
    const CliResult result = run_shell(there + judges_one_case(program));
    CAPTURE(result.err);
    CHECK(result.exit_code == 0);
    CHECK(result.out.find("1 pass, 0 fail") != std::string::npos);
  }
}

TEST_CASE("plug-in worker: it has ended when reports are written") {
  for (int attempt = 0; attempt < 5; ++attempt) {
    const TemporaryFolder folder;
    const std::string report = folder.file("report.json");
    const CliResult result = run_shell(
        "export ZP_TEST_REPORT=" + quoted(report) + "; " + quoted(build_folder() + "/zeroproof") +
        " verify op/clip/plugin/odd/fill:ties --plugin " + library("rewrites_report") +
        " --report " + quoted("json:" + report + ",html:" + folder.file("report.html")));
    CHECK(result.exit_code == 0);
    CHECK(read_file(report).starts_with("{"));
  }
}

TEST_CASE("plug-in worker: started by a user, it prints its purpose") {
  for (const char* words : {"", " a 0"})
    expect_refusal(run_shell(quoted(build_folder() + "/zeroproof-plugin") + words + " 3>&-"),
                   "use zeroproof verify --plugin FILE");
}

}  // namespace plugin_worker_test
