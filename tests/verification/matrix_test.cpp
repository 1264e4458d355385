// One trajectory for every world size, stage, bucket size, transport and thread count.

#include <doctest.h>

#include <map>
#include <set>

#include "tests/verification/cli_support.hpp"

namespace {

using namespace zeroproof::tests;
using Json = nlohmann::json;

/// Trajectories on verification/workload/sample_text.txt under contract version 2. A commit that changes one changes bits: it
/// raises the contract's version, says so in the changelog under Numerics, and updates these in the same
/// commit.
const std::map<std::string, std::string> pinned = {{"fp16", "912779950814d8bb35a3a499c1fbbbff"},
                                                   {"bf16", "0afb083e0976dae0964c48d6644c9723"},
                                                   {"fp32", "086aef1a4a7538a4dbd3cb2cd3780650"}};

constexpr int sizes[] = {1, 2, 3, 4, 6, 8};

std::string worlds() {
  std::string text;
  for (const int size : sizes) text += (text.empty() ? "" : ",") + ("threads:" + std::to_string(size));
#if defined(ZP_HAVE_MPI)
  for (const int size : sizes) text += ",mpi:" + std::to_string(size);
#endif
  return text;
}

Json run_matrix(const std::string& flags) {
  const TemporaryFolder folder;
  const std::string report = folder.file("report.json");
  const CliResult result = run_cli("verify byte_gpt_tiny --recipe adamw --world " + worlds() +
                                   " --stage 0,1,2 --bucket 4096,65536 --threads 1,2 " + flags +
                                   " --report text," + quoted("json:" + report));
  CAPTURE(result.out);
  CAPTURE(result.err);
  CHECK(result.exit_code == 0);
  return Json::parse(read_file(report));
}

/// Every case passed, and all cases of a dtype have one hash.
void check_one_hash(const Json& report, std::size_t expected_cases) {
  CHECK(report.at("cases").size() == expected_cases);
  CHECK(report.at("summary").at("pass") == expected_cases);
  std::map<std::string, std::set<std::string>> hashes;
  for (const Json& result : report.at("cases")) {
    CHECK(result.at("status") == "pass");
    CHECK(result.at("steps") == 6);
    CHECK(result.at("skipped_steps") == 1);
    CHECK(result.at("clipped_steps") > 0);
    CHECK(result.at("clipped_steps") < 5);
    hashes[result.at("dtype")].insert(result.at("trajectory_hash").get<std::string>());
  }
  for (const auto& [dtype, set] : hashes) {
    CHECK(set.size() == 1);
    CHECK(*set.begin() == pinned.at(dtype));
    MESSAGE("trajectory byte_gpt_tiny " << dtype << " " << *set.begin() << ": " << expected_cases
                                        << " cases");
  }
}

#if defined(ZP_HAVE_MPI)
constexpr std::size_t transports = 2;
#else
constexpr std::size_t transports = 1;
#endif
constexpr std::size_t configurations = std::size(sizes) * 3 * 2 * transports * 2;

}  // namespace

TEST_CASE("one trajectory hash over world size x stage x bucket x transport x threads") {
  check_one_hash(run_matrix("--dtype fp16 --twin host"), configurations);
}

TEST_CASE("slow: the same for every dtype, candidate and mode") {
  const Json report = run_matrix("--dtype fp16,bf16,fp32 --twin host,host-fused --mode lockstep,free");
  check_one_hash(report, configurations * 3 * 2 * 2);
}
