// zeroproof plan --owners: every layout by hand, in text and JSON, and refused input. Then
// Megatron-LM's count.

#include <doctest.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "common/step/policy.hpp"
#include "tests/verification/cli/cli_support.hpp"
#include "verification/tools/plan/counts.hpp"
#include "verification/tools/plan/owners.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;

/// 15, 7, 0 and 100 elements, at 0, 1024, 2048 and 2048 of 3072.
const char* const small_model = R"(
[[tensor]]
name = "a"
shape = [3, 5]
[[tensor]]
name = "b"
shape = [7]
[[tensor]]
name = "d"
shape = [0]
[[tensor]]
name = "e"
shape = [2, 50]
)";

/// Buffer, place in it, elements, and "a 3" for the tensor and its first element, "" for padding.
using Row = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::string>;

/// Rows as the text has them, from the pieces and the gaps between them.
std::vector<Row> rows(LayoutKind kind, int world, int rank, std::vector<int> group_of = {}) {
  const PlannedModel model = parse_model_toml(small_model, "small.toml");
  const Owners owners = make_owners(model, {kind, world, 1, 1024, rank, std::move(group_of)});
  REQUIRE(owners.ranks.size() == 1);
  std::vector<Row> result;
  std::int64_t numel = 0, padding = 0;
  for (const PeerSlice& slice : owners.ranks[0].slices) {
    std::int64_t at = slice.buffer_begin;
    const auto add_padding = [&](std::int64_t end) {
      if (end > at) result.emplace_back(slice.buffer, at, end - at, "");
      padding += end - at;
    };
    for (const PeerPiece& piece : slice.pieces) {
      add_padding(piece.buffer_begin);
      const std::string& name = owners.layout.tensors()[piece.tensor].name;
      result.emplace_back(slice.buffer, piece.buffer_begin, piece.numel,
                          name + " " + std::to_string(piece.tensor_begin));
      numel += piece.numel;
      at = piece.buffer_begin + piece.numel;
    }
    add_padding(slice.buffer_end);
  }
  CHECK(owners.ranks[0].numel == numel);
  CHECK(owners.ranks[0].padding == padding);
  return result;
}

using Rows = std::vector<Row>;

}  // namespace

TEST_CASE("owners by hand: rank 1 of 3 in every layout") {
  CHECK(rows(LayoutKind::contract, 3, 1) ==
        Rows{});  // three buckets of one chunk: the last rank has them
  CHECK(rows(LayoutKind::contract, 3, 2) == Rows{{0, 0, 15, "a 0"},
                                                 {0, 15, 1009, ""},
                                                 {0, 1024, 7, "b 0"},
                                                 {0, 1031, 1017, ""},
                                                 {0, 2048, 100, "e 0"},
                                                 {0, 2148, 924, ""}});
  // From the back: e 0-100, d 128, b 128-135, a 192-207, up to lcm(3, 128) = 384.
  CHECK(rows(LayoutKind::megatron, 3, 1) ==
        Rows{{0, 128, 7, "b 0"}, {0, 135, 57, ""}, {0, 192, 15, "a 0"}, {0, 207, 49, ""}});
  // 122 elements, up to 126, a multiple of 6.
  CHECK(rows(LayoutKind::deepspeed_flat, 3, 1) == Rows{{0, 42, 42, "e 20"}});
  CHECK(rows(LayoutKind::deepspeed_flat, 3, 2) == Rows{{0, 84, 38, "e 62"}, {0, 122, 4, ""}});
  CHECK(rows(LayoutKind::deepspeed_param, 3, 1) ==
        Rows{{0, 5, 5, "a 5"}, {1, 3, 3, "b 3"}, {3, 34, 34, "e 34"}});
  CHECK(rows(LayoutKind::deepspeed_param, 3, 2) == Rows{{0, 10, 5, "a 10"},
                                                        {1, 6, 1, "b 6"},
                                                        {1, 7, 2, ""},
                                                        {3, 68, 32, "e 68"},
                                                        {3, 100, 2, ""}});
  // One of three rows, three of seven, one of two: rank 2 has memory for a row that e does not
  // have.
  CHECK(rows(LayoutKind::fsdp2, 3, 1) ==
        Rows{{0, 5, 5, "a 5"}, {1, 3, 3, "b 3"}, {3, 50, 50, "e 50"}});
  CHECK(rows(LayoutKind::fsdp2, 3, 2) ==
        Rows{{0, 10, 5, "a 10"}, {1, 6, 1, "b 6"}, {1, 7, 2, ""}, {3, 100, 50, ""}});
  CHECK(rows(LayoutKind::greedy, 3, 1) == Rows{{0, 0, 15, "a 0"}});
}

TEST_CASE("owners by hand: param groups that are dealt out one by one") {
  const std::vector<int> vectors = {0, 1, 1, 0};  // b and d
  // a and e, 115 elements up to 116; b alone, 7 up to 8.
  CHECK(rows(LayoutKind::deepspeed_flat, 2, 0, vectors) ==
        Rows{{0, 0, 15, "a 0"}, {0, 15, 43, "e 0"}, {1, 0, 4, "b 0"}});
  CHECK(rows(LayoutKind::deepspeed_flat, 2, 1, vectors) ==
        Rows{{0, 58, 57, "e 43"}, {0, 115, 1, ""}, {1, 4, 3, "b 4"}, {1, 7, 1, ""}});
  // With e in the second group, a and b are distributed first, and e belongs to the rank with fewer
  // elements of them.
  CHECK(rows(LayoutKind::greedy, 2, 0, {0, 0, 0, 1}) == Rows{{0, 0, 15, "a 0"}});
  CHECK(rows(LayoutKind::greedy, 2, 1, {0, 0, 0, 1}) == Rows{{1, 0, 7, "b 0"}, {3, 0, 100, "e 0"}});
  for (const LayoutKind kind : {LayoutKind::contract, LayoutKind::megatron,
                                LayoutKind::deepspeed_param, LayoutKind::fsdp2}) {
    CHECK(rows(kind, 2, 1, vectors) == rows(kind, 2, 1));
  }
}

TEST_CASE("owners on the command line: text, JSON, and groups from a configuration") {
  const TemporaryFolder folder;
  const std::string model = quoted(folder.write("small.toml", small_model));
  const std::string json_file = folder.file("owners.json");
  const CliResult flat =
      run_cli("plan " + model + " --owners --layout deepspeed_flat --grid 3x1x1 --json " +
              quoted(json_file));
  CHECK(flat.exit_code == 0);
  for (const char* line :
       {"layout deepspeed_flat: 3 ranks share the state\n", "\nrank 2: 38 elements, 4 of padding\n",
        "\n   group                  in the buffer       elements                  in the tensor  "
        "tensor\n",
        "\n       0                       84 - 122             38                       62 - 100  "
        "e\n",
        "\n       0                      122 - 126              4                                 "
        "(padding)\n",
        "\nall ranks: 122 of 122 elements, 4 of padding; least 38 (rank 2), most 42 (rank 1)\n"}) {
    CHECK_MESSAGE(flat.out.find(line) != std::string::npos, flat.out);
  }
  const nlohmann::json json = nlohmann::json::parse(folder.read("owners.json"));
  CHECK(json.at("schema") == "zeroproof-owners/1");
  CHECK(json.at("settings").at("layout") == "deepspeed_flat");
  CHECK(json.at("ranks").size() == 3);
  const nlohmann::json last = json.at("ranks").at(2);
  CHECK(last.at("numel") == 38);
  CHECK(last.at("padding") == 4);
  CHECK(last.at("slices").at(0).at("buffer_end") == 126);
  CHECK(last.at("slices").at(0).at("pieces").at(0) ==
        nlohmann::json{
            {"tensor", "e"}, {"tensor_begin", 62}, {"tensor_end", 100}, {"buffer_begin", 84}});

  const std::string groups =
      quoted(folder.write("groups.toml", "[[param_group]]\nname = \"no_decay\"\nvectors = true\n"));
  const CliResult grouped =
      run_cli("plan " + model +
              " --owners --layout deepspeed_flat --grid 2x1x1 --rank 1 --config " + groups);
  CHECK(grouped.exit_code == 0);
  CHECK(grouped.out.find("\nrank 1: 60 elements, 2 of padding\n") != std::string::npos);
  CHECK(grouped.out.find("rank 0:") == std::string::npos);
  CHECK(grouped.out.find("all ranks") == std::string::npos);
  // Between two tensors is padding as well.
  const std::string gap =
      "\n       0                      135 - 192             57                                 "
      "(padding)\n";
  CHECK(run_cli("plan " + model + " --owners --layout megatron --grid 3x1x1 --rank 1")
            .out.find(gap) != std::string::npos);
  // Megatron-LM's buckets end anywhere: e alone reaches 100.
  CHECK(run_cli("plan " + model + " --owners --layout megatron --grid 2x1x1 --rank 0 --bucket 100")
            .out.find("\nrank 0: 71 elements, 57 of padding\n") != std::string::npos);
  // Instances replicate the state: two ranks share it.
  CHECK(
      run_cli("plan " + model + " --owners --grid 4x1x1 --instances 2").out.find("2 ranks share") !=
      std::string::npos);
}

TEST_CASE("owners: flags without effect, and ranks that do not exist, are refused") {
  const std::string plan = "plan byte_gpt_tiny --grid 4x1x1 ";
  for (const char* flag : {"--layout fsdp2", "--rank 0", "--config x.toml"})
    expect_refusal(plan + flag, "add --owners");
  for (const char* flag :
       {"--stage 1", "--dtype fp32", "--grad-dtype bf16", "--rule sgd", "--momentum 0.5",
        "--micro-batches 8", "--order strided", "--windows on", "--space device", "--offload 0.5",
        "--count claims", "--alpha 1", "--beta 1", "--memory 1", "--svg x.svg"}) {
    expect_refusal(plan + "--owners " + flag, "was given with --owners");
  }
  expect_refusal(plan + "--owners --rank 4", "rank 4 does not exist");
  expect_refusal(plan + "--owners --rank -1", "--rank is '-1'");
  expect_refusal(plan + "--owners --layout gredy", "did you mean greedy?");
  expect_refusal(plan + "--owners --layout fsdp2 --bucket 1024",
                 "--bucket was given with --layout fsdp2");
  expect_refusal(plan + "--owners --layout megatron --bucket 0", "--bucket is '0'");
  expect_refusal(plan + "--owners --layout megatron --config x.toml", "--config was given with");
  expect_refusal(plan + "--owners --layout greedy --config nothing.toml", "nothing.toml");
  expect_refusal(plan + "--owners --instances 3", "3 instances");
  expect_refusal(plan + "--owners --json /dev/null/x", "/dev/null/x");
}

TEST_CASE("Megatron-LM's table, by hand: 1000 parameters on 4 ranks") {
  PlanSettings settings;
  settings.grid = planned_grid("4x1x1", 0);
  const Plan plan = make_plan(
      parse_model_toml("[[tensor]]\nname = \"w\"\nshape = [1000]\n", "model.toml"), settings);
  std::vector<double> bytes;
  for (const Count& count : megatron_counts(plan)) bytes.push_back(count.bytes);
  // 20; 4 + 16/4; 18; 6 + 12/4; 16; 8 + 8/4.
  CHECK(bytes == std::vector<double>{20000, 8000, 18000, 9000, 16000, 10000});
  const CliResult shown = run_cli("plan byte_gpt_tiny --grid 4x1x1 --count megatron");
  CHECK(shown.exit_code == 0);
  CHECK(shown.out.find("6 P + 12 P / d") != std::string::npos);
  CHECK(widest(shown.out) <= 100);
}
