// One trajectory for every world size, stage, bucket size, assignment, layout, grid, transport and thread count. The
// cases of one world and transport run in one launch.

#include <doctest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/support/skip.hpp"
#include "tests/verification/cli/cli_support.hpp"

namespace matrix_test {

namespace {

using namespace zeroproof::tests;
using Json = nlohmann::json;

/// Trajectories on verification/model/sample_text.txt under contract version 2. A commit that
/// changes one changes bits: it raises the contract's version, has an entry in the changelog under
/// Numerics, and updates these in the same commit.
const std::map<std::string, std::string> pinned = {{"fp16", "912779950814d8bb35a3a499c1fbbbff"},
                                                   {"bf16", "0afb083e0976dae0964c48d6644c9723"},
                                                   {"fp32", "086aef1a4a7538a4dbd3cb2cd3780650"}};

/// The same of byte_gpt_uneven.
const std::map<std::string, std::string> pinned_uneven = {
    {"fp16", "ef849626e983968e443b59d2cd468051"}, {"bf16", "20d5fc4b7ab6400c12e2ab608ba1bf40"}};

/// "threads:1,threads:2,mpi:1,mpi:2"
std::string worlds(const std::vector<int>& threads, const std::vector<int>& mpi) {
  std::string text;
  for (const int size : threads) text += ",threads:" + std::to_string(size);
#if defined(ZP_HAVE_MPI)
  for (const int size : mpi) text += ",mpi:" + std::to_string(size);
#else
  static_cast<void>(mpi);
#endif
  return text.substr(1);
}

/// Ranks send messages unless the flags name windows.
Json run_matrix(std::string flags, const std::string& workload = "byte_gpt_tiny") {
  if (flags.find("--windows") == std::string::npos) flags += " --windows off";
  const TemporaryFolder folder;
  const std::string report = folder.file("report.json");
  const CliResult result =
      run_cli("verify " + workload + " " + flags + " --report text," + quoted("json:" + report));
  CAPTURE(result.out);
  CAPTURE(result.err);
  CHECK(result.exit_code == 0);
  return Json::parse(read_file(report));
}

/// Every case passed, and all cases of a dtype have one hash, the pinned one if there is one.
void check_one_hash(const Json& report, std::size_t expected_cases,
                    const std::map<std::string, std::string>& pins = pinned, int steps = 6) {
  CHECK(report.at("cases").size() == expected_cases);
  CHECK(report.at("summary").at("pass") == expected_cases);
  std::map<std::string, std::set<std::string>> hashes;
  for (const Json& result : report.at("cases")) {
    CHECK(result.at("status") == "pass");
    const Json& run = result.at("training");
    CHECK(run.at("steps") == steps);
    CHECK(run.at("skipped_steps") == 1);
    CHECK(run.at("clipped_steps") > 0);
    CHECK(run.at("clipped_steps") < steps - 1);
    hashes[run.at("dtype")].insert(run.at("trajectory_hash").get<std::string>());
  }
  for (const auto& [dtype, set] : hashes) {
    CHECK(set.size() == 1);
    if (pins.count(dtype) > 0) CHECK(*set.begin() == pins.at(dtype));
    MESSAGE("trajectory " << dtype << " " << *set.begin() << ": " << expected_cases << " cases");
  }
}

/// The hash of a report's first case, which the others must equal.
std::map<std::string, std::string> pin_of(const std::string& dtype, const Json& report) {
  return {{dtype, report.at("cases").at(0).at("training").at("trajectory_hash")}};
}

/// A model whose heads can be split over tensor parallel ranks, otherwise byte_gpt_tiny.
const char* const four_heads =
    "[model]\nlayers = 2\nwidth = 20\nheads = 4\nhidden = 37\ncontext = 13\n"
    "[optimizer]\nmax_norm = 0.6\n";

/// That model on 16 micro-batches, once for every parallel configuration that the flags select.
class FourHeads {
 public:
  Json run(const std::string& flags) const {
    return run_matrix("--config " + quoted(config_) +
                      " --recipe sgd --dtype bf16 --impl host --threads 1 --micro-batches 16 " +
                      flags);
  }

 private:
  TemporaryFolder folder_;
  std::string config_ = folder_.write("four_heads.toml", four_heads);
};

#if defined(ZP_HAVE_MPI)
constexpr std::size_t transports = 2;
#else
constexpr std::size_t transports = 1;
#endif
const std::string every_stage = "--recipe adamw --dtype fp16 --impl host --stage 0,1,2,3 ";
const std::vector<int> few = {1, 2, 3, 4, 6, 8};
const std::vector<int> all = {1, 2, 3, 4, 6, 8, 12, 16};

}  // namespace

// A few worlds of each kind for every change; the cases named "nightly" have all of them.
TEST_CASE("one trajectory hash over worlds, stages, assignments and processes") {
  check_one_hash(
      run_matrix(every_stage + "--threads 1 --bucket 1024 --order contiguous,strided --world " +
                 worlds({1, 3, 8}, {})),
      3 * 4 * 2);
  check_one_hash(run_matrix("--recipe adamw --dtype fp16 --impl host-fused --stage 2,3 --overlap "
                            "--threads 1 --world " +
                            worlds({4}, {3})),
                 transports * 2);
}

TEST_CASE("one trajectory hash over layouts, instances and ranks that read each other's memory") {
  check_one_hash(
      run_matrix("--recipe adamw --dtype fp16 --impl host --norm exact --stage 1,3 --threads 1 "
                 "--layout contract,megatron,deepspeed_flat,deepspeed_param,fsdp2,greedy "
                 "--world threads:5"),
      2 * 6, {});
  check_one_hash(run_matrix(every_stage + "--threads 1 --instances 2 --world threads:6"), 4);
  check_one_hash(run_matrix(every_stage + "--windows on,params --threads 1 --world threads:3"),
                 4 * 2);
}

TEST_CASE("one trajectory hash of many tensors, of which one is long and some have one element") {
  const auto check = [](const std::string& flags, std::size_t cases) {
    const bool own = flags.find("--recipe") == std::string::npos;
    check_one_hash(run_matrix(flags, "byte_gpt_uneven"), cases,
                   own ? pinned_uneven : std::map<std::string, std::string>{}, 4);
  };
  check("--dtype fp16 --impl host,host-fused --stage 0,1,2,3 --threads 3 --world self,threads:3",
        4 * 2 * 2);
  check(
      "--dtype bf16 --recipe adamw-idle --impl host,host-fused --stage 2 --bucket 4096 "
      "--world threads:2",
      2);
  check(
      "--dtype bf16 --impl host,host-fused --stage 1,3 --grid 2x1x2 --norm exact --world threads:4",
      2 * 2);
  check(
      "--dtype fp16 --impl host-fused --stage 2 --offload 0.5,1 --offload-place host,file "
      "--offload-grads on --world self",
      2 * 2);
}

TEST_CASE("one trajectory hash over process grids, and one for each kind of sum") {
  const FourHeads model;
  const std::string grids = "--stage 2 --grid 2x2x1,2x1x2,1x2x2 --world threads:4";
  const auto pin = pin_of("bf16", model.run("--stage 0 --world self"));
  check_one_hash(model.run(grids), 3, pin);
  check_one_hash(model.run("--sum native " + grids), 3, pin);
  const auto other = pin_of("bf16", model.run("--sum binned --stage 0 --world self"));
  CHECK(other != pin);
  check_one_hash(model.run("--sum binned " + grids), 3, other);
}

TEST_CASE("nightly: one trajectory hash over world size x stage x assignment in small buckets") {
  check_one_hash(
      run_matrix(every_stage + "--threads 1 --bucket 1024 --order contiguous,strided --world " +
                 worlds(few, {})),
      few.size() * 4 * 2);
}

TEST_CASE("nightly: one trajectory hash over world size x stage x assignment in large buckets") {
  check_one_hash(
      run_matrix(every_stage + "--threads 1 --bucket 65536 --order contiguous,strided --world " +
                 worlds(few, {})),
      few.size() * 4 * 2);
}

TEST_CASE("nightly: one trajectory hash over large worlds, processes and the fused step") {
  check_one_hash(
      run_matrix(every_stage + "--bucket 4096 --threads 2 --world " + worlds({12, 16}, {2, 3, 4})),
      (2 + 3 * (transports - 1)) * 4);
  check_one_hash(
      run_matrix("--recipe adamw --dtype fp16 --impl host-fused --stage 2,3 --overlap --threads 1 "
                 "--world " +
                 worlds({1, 3, 4, 8}, {3})),
      (4 + transports - 1) * 2);
}

TEST_CASE("nightly: one trajectory hash over ranks that read each other's memory") {
  const std::string windows = "--windows on,params ";
  check_one_hash(run_matrix(every_stage + windows +
                            "--threads 1 --bucket 1024 --order contiguous,strided --world " +
                            worlds({2, 3, 8}, {})),
                 3 * 4 * 2 * 2);
  check_one_hash(run_matrix(every_stage + windows + "--threads 2 --bucket 4096 --world " +
                            worlds({5}, {2, 3})),
                 (1 + 2 * (transports - 1)) * 4 * 2);
  check_one_hash(
      run_matrix("--recipe adamw --dtype fp16 --impl host-fused --stage 0,1,2,3 --overlap " +
                 windows + "--threads 1 --persistent 200 --world " + worlds({3}, {2})),
      transports * 4 * 2);
  check_one_hash(
      run_matrix("--recipe adamw --dtype fp16 --impl host --norm exact --stage 1,2,3 --threads 1 " +
                 windows + "--instances 2 --layout megatron,fsdp2 --world " + worlds({6}, {4})),
      transports * 3 * 2 * 2, {});
  check_one_hash(
      run_matrix("--recipe adamw --dtype fp16 --impl host --sum binned --stage 1,2 --threads 1 " +
                 windows + "--world " + worlds({3}, {})),
      2 * 2, {});
}

TEST_CASE("nightly: one trajectory hash over layouts and instances") {
  check_one_hash(
      run_matrix("--recipe adamw --dtype fp16 --impl host --norm exact --stage 1,2,3 --threads 1 "
                 "--layout contract,megatron,deepspeed_flat,deepspeed_param,fsdp2,greedy --world " +
                 worlds({2, 5}, {3})),
      (2 + transports - 1) * 3 * 6, {});
  check_one_hash(run_matrix("--recipe adamw --dtype fp16 --impl host --stage 0,1,2,3 --threads 1 "
                            "--instances 2 --world " +
                            worlds({2, 6}, {4})),
                 (2 + transports - 1) * 4);
}

TEST_CASE("nightly: one trajectory hash over process grids") {
  const FourHeads model;
  const auto pin = pin_of("bf16", model.run("--stage 0 --world self"));
  check_one_hash(model.run("--stage 0,1,2,3 --grid 2x2x1,2x1x2,1x1x4 --world threads:4"), 4 * 3,
                 pin);
  if (transports > 1)
    check_one_hash(model.run("--stage 0,1,2,3 --grid 2x1x2 --world mpi:4"), 4, pin);
  check_one_hash(model.run("--stage 1,3 --grid 2x2x2 --world " + worlds({8}, {})), 2, pin);
}

TEST_CASE("nightly: one trajectory hash over process grids whose ranks read each other's memory") {
  const FourHeads model;
  const auto pin = pin_of("bf16", model.run("--stage 0 --world self"));
  check_one_hash(
      model.run("--windows on,params --stage 0,1,2,3 --grid 2x2x1,2x1x2 --world threads:4"),
      4 * 2 * 2, pin);
  if (transports > 1)
    check_one_hash(model.run("--windows on,params --stage 1,2 --grid 2x1x2 --world mpi:4"), 4, pin);
}

TEST_CASE("nightly: one trajectory hash over process grids that add in another way") {
  const FourHeads model;
  const auto pin = pin_of("bf16", model.run("--stage 0 --world self"));
  // Native sums are replaced by the tree's after the check of their bound.
  check_one_hash(model.run("--sum native --stage 1,2 --grid 2x2x1,2x1x2,1x2x2 --world threads:4"),
                 2 * 3, pin);
  if (transports > 1) {
    check_one_hash(model.run("--sum native --stage 1,2 --grid 2x2x1 --world mpi:4"), 2, pin);
  }
  const auto other = pin_of("bf16", model.run("--sum binned --stage 0 --world self"));
  CHECK(other != pin);
  check_one_hash(model.run("--sum binned --stage 1,2 --grid 2x2x1,1x4x1,1x2x2 --world threads:4"),
                 2 * 3, other);
  if (transports > 1) {
    check_one_hash(model.run("--sum binned --stage 1,2 --grid 1x2x2 --world mpi:4"), 2, other);
  }
}

TEST_CASE("nightly: binned sums have one hash for every number of ranks") {
  const Json one = run_matrix(
      "--recipe adamw --dtype fp16 --impl host --threads 1 --sum binned --stage 0 --world self");
  const auto pin = pin_of("fp16", one);
  CHECK(pin.at("fp16") != pinned.at("fp16"));
  std::vector<int> sizes;
  for (int size = 1; size <= 16; ++size) sizes.push_back(size);
  check_one_hash(
      run_matrix(
          "--recipe adamw --dtype fp16 --impl host --threads 1 --sum binned --stage 2 --world " +
          worlds(sizes, {3})),
      16 + transports - 1, pin);
}

TEST_CASE("nightly: process grids on processes, every sum") {
  if (transports == 1) return skip_case("this build has no MPI");
  const FourHeads model;
  const auto tree = pin_of("bf16", model.run("--stage 0 --world self"));
  const auto binned = pin_of("bf16", model.run("--sum binned --stage 0 --world self"));
  const std::string grids = "--grid 2x2x1,2x1x2,1x1x4,1x4x1,1x2x2 --world " + worlds({}, {4});
  for (const char* sum : {"tree", "native", "binned"}) {
    const bool bins = std::string(sum) == "binned";
    check_one_hash(model.run(std::string("--sum ") + sum + " --stage 1,2 " + grids), 2 * 5,
                   bins ? binned : tree);
  }
}

TEST_CASE("slow: the whole matrix") {
  const std::string common =
      "--recipe adamw --stage 0,1,2,3 --order contiguous,strided --bucket 1024,4096,65536 ";
  check_one_hash(
      run_matrix(common + "--dtype fp16 --impl host --threads 1 --world " + worlds(all, all)),
      all.size() * 4 * 2 * 3 * transports);
  check_one_hash(run_matrix(common +
                            "--dtype fp16,bf16,fp32 --impl host,host-fused --mode lockstep,free "
                            "--threads 2 --world " +
                            worlds({1, 3, 4}, {3})),
                 (3 + transports - 1) * 4 * 2 * 3 * 3 * 2 * 2);
}

TEST_CASE("slow: process grids of 16 and 48 micro-batches, in every stage and assignment") {
  const TemporaryFolder folder;
  const std::string common =
      "--config " + quoted(folder.write("four_heads.toml", four_heads)) +
      " --recipe sgd --dtype bf16 --impl host,host-fused --threads 1 --micro-batches ";
  for (const std::string count : {"16 ", "48 "}) {
    const Json whole = run_matrix(common + count + "--stage 0 --world self");
    const auto pin = pin_of("bf16", whole);
    check_one_hash(
        run_matrix(
            common + count +
            "--stage 0,1,2,3 --order contiguous,strided --grid "
            "2x2x1,2x1x2,1x2x2,1x4x1,1x1x4,4x2x1,2x2x2,2x1x4,1x2x4,1x8x1,3x2x2,12x1x1 --world " +
            worlds({4, 8, 12}, {4, 8})),
        (12 + (transports - 1) * 10) * 4 * 2 * 2, pin);
  }
}

}  // namespace matrix_test
