// Reading of whole files: the content, or nothing if a read fails; never an exception without the
// path.

#include "verification/cli/program/file_text.hpp"

#include <doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <thread>

#include "tests/verification/cli/cli_support.hpp"
#include "verification/training/ranks/job_folder.hpp"

namespace file_text_test {

using namespace zeroproof::tests;
using namespace zeroproof::verification;

TEST_CASE("file_text: returns every byte, or fails") {
  const TemporaryFolder folder;
  std::string bytes = "a line\n";
  for (int i = 0; i < 100'000; ++i) bytes.push_back(static_cast<char>(i % 256));
  CHECK(file_text(folder.write("many", bytes)) == bytes);
  CHECK(file_text(folder.write("none", "")) == "");
  CHECK_FALSE(file_text(folder.file("missing")).has_value());
  CHECK_FALSE(file_text(folder.file(".")).has_value());
  CHECK_FALSE(file_text("/proc/self/mem").has_value());  // the file opens, and every read fails
  CHECK(content_of("/proc/self/mem").empty());
  CHECK(content_of(folder.file("missing")).empty());
}

TEST_CASE("file_text: state of a process that ends during the read") {
  std::int64_t looks = 0, gone = 0;
  for (int i = 0; i < 100; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::pause();
      ::_exit(0);
    }
    std::atomic<bool> ended = false;
    std::thread reaper([&] {
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
      ended = true;
    });
    const std::string path = "/proc/" + std::to_string(child) + "/stat";
    while (!ended) {
      ++looks;
      gone += content_of(path).empty() ? 1 : 0;
    }
    reaper.join();
    CHECK(content_of(path).empty());
  }
  CHECK(looks > 100);
  MESSAGE(looks << " looks, " << gone << " of them at nothing");
}

TEST_CASE("file_text: a file that opens but cannot be read is an error") {
  const TemporaryFolder folder;
  const std::string model = folder.file("model.toml");
  std::filesystem::create_symlink("/proc/self/mem", model);
  expect_refusal(run_cli("replay /proc/self/mem"), "/proc/self/mem cannot be read");
  expect_refusal(run_cli("plan " + quoted(model)), "model.toml cannot be read");
}

}  // namespace file_text_test
