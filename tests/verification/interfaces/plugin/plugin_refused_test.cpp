// Unsuitable plug-ins are refused in one sentence, before anything runs.

#include <doctest.h>

#include <cstddef>

#include "tests/verification/cli/cli_support.hpp"
#include "tests/verification/interfaces/plugin/reply_size.h"
#include "verification/interfaces/plugin/wire.hpp"

namespace plugin_refused_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

static_assert(sizeof(verification::PluginHello) == ZP_HELLO_BYTES &&
              offsetof(verification::PluginHello, name) == ZP_HELLO_NAME &&
              offsetof(verification::PluginHello, operations) == ZP_HELLO_OPERATIONS);

std::string library(const std::string& name) {
  return quoted(build_folder() + "/plugins/" + name + ".so");
}

void refused(const std::string& name, const std::string& must_mention) {
  expect_refusal("verify clip --plugin " + library("refused_" + name), must_mention);
}

}  // namespace

TEST_CASE("plug-in: unsuitable files are refused") {
  const TemporaryFolder folder;
  expect_refusal("verify clip --plugin " + quoted(folder.file("none.so")),
                 "No such file or directory");
  expect_refusal("verify clip --plugin " + quoted(folder.file("")), "is not a file");
  expect_refusal("verify clip --plugin " + quoted(folder.write("text.so", "no library\n")),
                 "cannot be loaded");
}

TEST_CASE("plug-in: libraries of another version are refused") {
  refused("symbol", "does not export zeroproof_get_plugin");
  refused("null_description", "returned no description of itself");
  refused("abi", "was built for version 77 of the interface and this program has 1");
  refused("size", "describes itself in 8 bytes");
  refused("name", "has no name that is valid in a case id");
  expect_refusal("verify clip --plugin " + library("forged_hello"),
                 "has no name that is valid in a case id");
  refused("no_operations", "has no operations");
  refused("too_many", "lists 1000 operations");
  refused("null_entry", "lists clip_value without a function");
  refused("unknown_operation", "did you mean clip_value?");
  refused("twice", "lists clip twice");
  refused("dies", "died of SIGABRT");
  expect_refusal("verify clip --plugin-timeout 1 --plugin " + library("refused_sleeps"),
                 "did not return");
}

TEST_CASE("plug-in: flags without an effect are refused") {
  const std::string plugin = "--plugin " + library("honest_only");
  expect_refusal("verify lbfgs/* " + plugin, "--plugin does not apply");
  expect_refusal("verify clip --plugin-timeout 3", "without --plugin");
  expect_refusal("verify clip --plugin-timeout 0 " + plugin, "--plugin-timeout is 0");
  expect_refusal("verify clip --plugin-timeout long " + plugin, "--plugin-timeout is 'long'");
  expect_refusal("verify clip --impl plugin", "without --plugin");
  expect_refusal("verify op/clip/plugin/odd/fill:ties", "plugin");
  expect_refusal("verify op/clip/plugin/mine/fill:ties " + plugin, "odd");
}

TEST_CASE("plug-in: runs beside the implementations, and in a replay") {
  const std::string plugin = "--plugin " + library("honest_only");
  const CliResult alone = run_cli("verify op/clip/plugin/odd/fill:ties " + plugin);
  CHECK(alone.exit_code == 0);
  CHECK(alone.out.find("1 pass, 0 fail") != std::string::npos);
  const CliResult both = run_cli("list clip --impl host,plugin " + plugin);
  CHECK(both.out.find("op/clip/plugin/odd/fill:ties") != std::string::npos);
  CHECK(both.out.find("op/clip/host/x86-64/fill:ties") != std::string::npos);
  CHECK(run_cli("replay op/clip/plugin/odd/fill:ties " + plugin).exit_code == 0);
  expect_refusal("verify op/clip_coef/plugin/odd/fill:sweep " + plugin,
                 "does not have the operation", 3);
  CHECK(run_cli("verify op/clip/plugin/odd/fill:ties --plugin " + library("segv")).exit_code == 6);
  CHECK(
      run_cli("verify op/clip/plugin/odd/fill:ties --plugin-timeout 1 --plugin " + library("loops"))
          .exit_code == 5);
}

TEST_CASE("plug-in: its process ends when zeroproof is killed") {
  const TemporaryFolder folder;
  const std::string script =
      "'" + build_folder() + "/zeroproof' verify op/clip/plugin/odd/fill:ties --plugin " +
      library("loops") +
      " >/dev/null 2>&1 & h=$!; sleep 1; w=$(cat /proc/$h/task/$h/children); kill -9 "
      "$h; [ -n \"$w\" ] || exit 2; "
      "for i in 1 2 3 4 5 6 7 8 9; do sleep 0.3; grep -qs '^State:.[^Z]' /proc/${w% "
      "}/status || exit 0; done; exit 1";
  const int status = std::system(script.c_str());
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

}  // namespace plugin_refused_test
