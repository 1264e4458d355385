// zeroproof doctor: devices and NCCL.

#include <doctest.h>

#include <cstdlib>

#include "tests/verification/cli/cli_support.hpp"
#include "verification/cli/program/capabilities.hpp"
#include "verification/cli/program/device_capabilities.hpp"

namespace doctor_test {

namespace {

using namespace zeroproof::tests;
using namespace zeroproof::verification;

/// Paths are not split.
bool is_one_word(const std::string& text) { return text.find(' ') == std::string::npos; }

}  // namespace

TEST_CASE("doctor: prints a line for every device and for NCCL, at most as wide as a terminal") {
  for (const char* library : {"", "/nowhere/libnccl.so.2"}) {
    ::setenv("ZP_NCCL_LIBRARY", library, 1);  // empty: as if it were unset
    const CliResult result = run_cli("doctor");
    ::unsetenv("ZP_NCCL_LIBRARY");
    CAPTURE(result.out);
    CHECK(result.exit_code == 0);
    for (const std::string& line : lines_of(result.out))
      CHECK((line.size() <= 80 || is_one_word(line.substr(25))));
    CHECK(result.out.find("\ncuda device") != std::string::npos);
    CHECK(result.out.find("\nnccl ") != std::string::npos);
    if (mpi_answers()) {
      const std::size_t mpi = result.out.find("\nmpi               ok     ");
      REQUIRE(mpi != std::string::npos);
      const std::string library = result.out.substr(mpi + 26, 8);
      CHECK((library.rfind("Open MPI", 0) == 0 || library.rfind("MPICH ", 0) == 0));
    }
    const bool built = result.out.find("built without nccl.h") == std::string::npos;
    if (built && *library != 0) CHECK(result.out.find("ZP_NCCL_LIBRARY") != std::string::npos);
    if (!device_answers()) CHECK(result.out.find("OFF") != std::string::npos);
  }
}

TEST_CASE("doctor: refuses devices older than 8.0, and reads whether NCCL shares devices") {
  const std::int64_t memory = (std::int64_t{139} << 30) + (std::int64_t{7} << 30) / 10;
  const Capability good = device_line(1, {"NVIDIA H200", memory, 9, 0});
  CHECK(good.name == "cuda device 1");
  CHECK(good.available);
  CHECK(good.detail == "NVIDIA H200, 139.7 GiB, compute capability 9.0");
  const Capability old = device_line(0, {"Tesla T4", std::int64_t{15} << 30, 7, 5});
  CHECK_FALSE(old.available);
  CHECK(old.detail.find("Tesla T4, 15.0 GiB, compute capability 7.5: older than 8.0, refused") ==
        0);
  CHECK(nccl_shares_devices("2.30.0", "1"));
  CHECK(nccl_shares_devices("3.0.1", "1"));
  CHECK_FALSE(nccl_shares_devices("2.29.7", "1"));
  CHECK_FALSE(nccl_shares_devices("2.30.0", "0"));
  CHECK_FALSE(nccl_shares_devices("2.30.0", nullptr));
}

}  // namespace doctor_test
