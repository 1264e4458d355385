// Scales of 8-bit parameters in files of other programs: an exported and imported state continues
// with the same bits (R24).

#include <doctest.h>

#include "common/base/float_formats.hpp"
#include "common/io/safetensors/safetensors_reader.hpp"
#include "common/step/state_format.hpp"
#include "tests/verification/cli/cli_support.hpp"
#include "tests/verification/compare/tensors/tensor_files.hpp"

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

/// The decoded values of codes (R25): a scale_inv for every 128 elements of a tensor.
template <class Code>
std::vector<float> decoded(const std::string& dump, const std::string& buffer,
                           const std::string& of) {
  const auto codes = values_of<typename Format<Code>::Bits>(dump, buffer + of);
  const auto scale_inv = values_of<float>(dump, buffer + "_scale" + of);
  std::vector<float> values;
  for (std::size_t i = 0; i < codes.size(); ++i)
    values.push_back(to_float(Code{codes[i]}) * scale_inv.at(i / state_block_numel));
  return values;
}

}  // namespace

TEST_CASE(
    "scales in files: an exported and imported state continues with the same bits, and is dumped") {
  for (const char* recipe : {"fp8-delayed", "fp8-mxfp8"}) {
    CAPTURE(recipe);
    const bool delayed = std::string(recipe) == "fp8-delayed";
    const TemporaryFolder folder = TemporaryFolder::in_memory();
    const auto file = [&](const char* name) { return quoted(folder.file(name)); };
    const auto train = [&](const char* saved, const std::string& words) {
      return run_cli("train --workload byte_gpt_tiny --recipe " + std::string(recipe) +
                     " --world threads:3 " + words + " --checkpoint " + file(saved));
    };
    REQUIRE(train("runs", "--steps 2").exit_code == 0);
    REQUIRE(run_cli("checkpoint export " + file("runs") + " -o " + file("state")).exit_code == 0);
    const auto state = SafetensorsReader::open(folder.file("state"));
    CHECK(state.find("param_scale") != nullptr);
    CHECK((state.find("amax_history") != nullptr) == delayed);
    REQUIRE(run_cli("checkpoint import " + file("state") + " --like " + file("runs") + " -o " +
                    file("back"))
                .exit_code == 0);
    REQUIRE(train("runs", "--steps 4 --resume --dump " + file("one")).exit_code == 0);
    REQUIRE(train("back", "--steps 4 --resume --dump " + file("two")).exit_code == 0);
    const CliResult same = run_cli("diff " + file("one") + " " + file("two"));
    CAPTURE(same.out);
    CHECK(same.exit_code == 0);
    const auto dump = SafetensorsReader::open(folder.file("one"));
    CHECK(dump.find("param.4.head.weight")->dtype ==
          (delayed ? SafeDType::f8_e5m2 : SafeDType::f8_e4m3));
    CHECK((dump.find("amax_history.4.head.weight") != nullptr) == delayed);
    CHECK((dump.find("column_scale.4.head.weight") != nullptr) != delayed);
    CHECK((dump.find("param_columns.4.head.weight") != nullptr) != delayed);
  }
}

TEST_CASE(
    "scales in files: state in fewer bits is dumped as codes and scales, saved, and continues on "
    "any "
    "grid") {
  const TemporaryFolder folder = TemporaryFolder::in_memory();
  const auto file = [&](const std::string& name) { return quoted(folder.file(name)); };
  const std::string what =
      "train --workload byte_gpt_tiny --recipe adamw+model:even+norm:exact --dtype bf16 "
      "--exp-avg-dtype e4m3 --exp-avg-sq-dtype fp16 ";
  const auto train = [&](const std::string& words) {
    const CliResult result = run_cli(what + words);
    CAPTURE(result.err);
    REQUIRE(result.exit_code == 0);
  };
  train("--world self --steps 4 --checkpoint " + file("one_rank") + " --dump " + file("whole"));
  int run = 0;
  for (const char* place :
       {"--world threads:2 --stage 1 --grid 1x1x2", "--world threads:3 --stage 2",
        "--world threads:4 --stage 3 --grid 2x1x2 --impl host-fused"}) {
    CAPTURE(place);
    const std::string saved = "runs" + std::to_string(run++);
    train(std::string(place) + " --steps 2 --checkpoint " + file(saved));
    train("--world threads:4 --stage 0 --grid 1x1x4 --steps 4 --resume --checkpoint " +
          file(saved) + " --dump " + file(saved + ".dump"));
    const CliResult same = run_cli("diff " + file("whole") + " " + file(saved + ".dump"));
    CAPTURE(same.out);
    CHECK(same.exit_code == 0);
  }
  // Every tensor has the scales of its own blocks: decoded with them its codes give the exported
  // values.
  REQUIRE(run_cli("checkpoint export " + file("one_rank") + " -o " + file("values")).exit_code ==
          0);
  const std::string codes = folder.file("whole"), values = folder.file("values");
  for (const std::string tensor :
       {"token_embedding.weight", "block1.mlp.up.weight", "head.weight"}) {
    CAPTURE(tensor);
    CHECK(decoded<e4m3>(codes, "exp_avg", ".4." + tensor) ==
          values_of<float>(values, "exp_avg." + tensor));
    CHECK(decoded<fp16>(codes, "exp_avg_sq", ".4." + tensor) ==
          values_of<float>(values, "exp_avg_sq." + tensor));
  }
  const auto dump = SafetensorsReader::open(folder.file("whole"));
  CHECK(dump.find("exp_avg.4.head.weight")->dtype == SafeDType::f8_e4m3);
  CHECK(dump.find("exp_avg_sq.4.head.weight")->dtype == SafeDType::f16);
  CHECK(dump.find("exp_avg_scale.4.head.weight")->dtype == SafeDType::f32);
  CHECK(dump.find("exp_avg_sq_scale.4.head.weight") != nullptr);
}

TEST_CASE("scales in files: a training in bf16 has none, and one in 8 bits needs its own") {
  const TemporaryFolder folder = TemporaryFolder::in_memory();
  const auto file = [&](const char* name) { return quoted(folder.file(name)); };
  const auto saved = [&](const char* name, const std::string& words) {
    REQUIRE(
        run_cli("train --workload byte_gpt_tiny --steps 1 " + words + " --checkpoint " + file(name))
            .exit_code == 0);
    REQUIRE(
        run_cli("checkpoint export " + file(name) + " -o " + quoted(folder.file(name) + ".state"))
            .exit_code == 0);
  };
  saved("bf16", "--recipe adamw --dtype bf16");
  saved("current", "--recipe fp8-current --dtype e4m3");
  saved("mxfp8", "--recipe fp8-mxfp8 --dtype e4m3");
  const auto import = [&](const char* state, const char* like) {
    return "checkpoint import " + quoted(folder.file(state) + ".state") + " --like " + file(like) +
           " -o " + file("out");
  };
  expect_refusal(import("current", "bf16"), "has param_scale, which the training does not keep");
  expect_refusal(import("bf16", "current"), "has no tensor param_scale");
  expect_refusal(import("mxfp8", "current"), "has param_scale of another type or length");
}
