// zeroproof diff, by its command line.

#include <doctest.h>

#include <limits>

#include "tests/verification/cli/cli_support.hpp"
#include "tests/verification/compare/tensors/tensor_files.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

CliResult diff(const TemporaryFolder& folder, const std::string& more = "") {
  return run_cli("diff " + quoted(folder.file("a")) + " " + quoted(folder.file("b")) + " " + more);
}

}  // namespace

TEST_CASE("diff: only equal files exit with 0 and are reported as equal") {
  const TemporaryFolder folder;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  write_tensors(folder.file("a"), {floats("x", {1, 2}), floats("y", {nan})}, {{"made", "here"}});
  write_tensors(folder.file("b"), {floats("x", {1, 2}), floats("y", {-nan})}, {{"made", "there"}});
  const CliResult same = diff(folder);
  CHECK(same.exit_code == 0);
  CHECK(same.out.find("2 of 2 tensors equal; 0 of 3 elements compared differ\n") !=
        std::string::npos);
  CHECK(same.out.find("some NaNs have different bits") != std::string::npos);
  CHECK(same.out.find("metadata differs in 1 entry, which is not compared: 'made'") !=
        std::string::npos);
  write_tensors(folder.file("b"), {floats("x", {1, 2})});
  const CliResult missing = diff(folder);
  CHECK(missing.exit_code == 1);
  CHECK(missing.out.find("only in the first file") != std::string::npos);
  CHECK(missing.out.find("1 of 2 tensors equal, 1 not comparable") != std::string::npos);
}

TEST_CASE("diff: the table fits 100 columns and counts omitted rows; the JSON has all") {
  const TemporaryFolder folder;
  std::vector<NamedTensor> first, second;
  for (int i = 0; i < 30; ++i) {
    const std::string name = "decoder.layers." + std::to_string(i) + std::string(i * 5, 'x');
    first.push_back(floats(name, {1, -1e30F, 3}));
    second.push_back(floats(name, {1, 1e30F, 5}));
  }
  first.push_back(
      tensor<float>("f", SafeDType::f32, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {1}));
  second.push_back(
      tensor<double>("f", SafeDType::f64, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {1}));
  write_tensors(folder.file("a"), first);
  write_tensors(folder.file("b"), second);
  const CliResult found = diff(folder, "--json " + quoted(folder.file("out.json")));
  CAPTURE(found.out);
  CHECK(found.exit_code == 1);
  CHECK(found.out.find("... and 11 more that differ") != std::string::npos);
  CHECK(found.out.substr(0, found.out.find("report: ")).size() > 1000);
  CHECK(widest(found.out.substr(0, found.out.find("report: "))) <= 100);
  const CliResult rows = diff(folder, "--rows");
  CHECK(rows.out.find("more that differ") == std::string::npos);
  CHECK(rows.out.find("    ulps  1: 0  2: 0  3-15: 0  16+: 1  sign or NaN: 1\n") !=
        std::string::npos);
  CHECK(widest(rows.out) <= 100);
  const auto json = nlohmann::json::parse(read_file(folder.file("out.json")));
  CHECK(json["schema"] == "zeroproof-diff/1");
  CHECK(json["equal"] == false);
  CHECK(json["tensors"].size() == 31);
  CHECK(json["tensors"][0]["ulps"]["sign_or_nan"] == 1);
  CHECK(json["tensors"][0]["absolute"]["index"] == 1);
  CHECK(json["total"]["ulps"]["16+"] == 30);
  CHECK(json["total"]["not_comparable"] == 1);
}

TEST_CASE("diff: unusable files exit with 2") {
  const TemporaryFolder folder;
  write_tensors(folder.file("a"), {floats("x", {1})});
  expect_refusal(diff(folder), "b");
  folder.write("b", "no safetensors");
  expect_refusal(diff(folder), "b");
  write_tensors(folder.file("b"), {floats("x", {1})});
  std::filesystem::resize_file(folder.file("b"), std::filesystem::file_size(folder.file("b")) - 1);
  expect_refusal(diff(folder), "b");
  expect_refusal("diff " + quoted(folder.file("a")), "second");
  expect_refusal("diff " + quoted(folder.file("a")) + " /dev/zero", "/dev/zero");
  write_tensors(folder.file("a"), {});
  write_tensors(folder.file("b"), {});
  expect_refusal(diff(folder), "neither file has a tensor");
}

TEST_CASE("diff: an unwritable report is refused before the comparison") {
  const TemporaryFolder folder;
  write_tensors(folder.file("a"), {floats("x", {1})});
  write_tensors(folder.file("b"), {floats("x", {1})});
  expect_refusal(diff(folder, "--json " + quoted(folder.file("."))), "cannot be written");
  std::filesystem::create_symlink(folder.file("b"), folder.file("c"));
  const std::string before = folder.read("b");
  expect_refusal(diff(folder, "--json " + quoted(folder.file("c"))), "is both input and output");
  CHECK(folder.read("b") == before);
}
