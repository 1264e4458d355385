// Golden files: recorded, compared with the present results, updated with a reason.

#include <doctest.h>

#include <functional>
#include <limits>
#include <regex>

#include "tests/verification/cli/cli_support.hpp"
#include "tests/verification/compare/tensors/tensor_files.hpp"
#include "verification/tools/train/dump/golden.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;
namespace fs = std::filesystem;

constexpr const char* one_run = " byte_gpt_tiny --recipe adamw --dtype bf16 ";

CliResult golden(const std::string& words, const std::string& environment = "env -u CI") {
  const TemporaryFolder folder;
  const std::string command = environment + " '" + build_folder() + "/zeroproof' golden " + words +
                              " >'" + folder.file("out") + "' 2>'" + folder.file("err") +
                              "' </dev/null";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          read_file(folder.file("out")), read_file(folder.file("err"))};
}

/// Replaces the first match in the record of a golden file.
void edit(const std::string& file, const std::string& pattern, const std::string& text) {
  const std::string record = read_file(file + ".toml");
  const std::string changed = std::regex_replace(record, std::regex(pattern), text,
                                                 std::regex_constants::format_first_only);
  REQUIRE(changed != record);
  std::ofstream(file + ".toml", std::ios::binary) << changed;
}

/// Changes a record as the program would have written it, with its digest.
void rewrite(const std::string& file, const std::function<void(GoldenRecord&)>& change) {
  GoldenRecord record = read_golden_record(file + ".toml");
  change(record);
  std::ofstream(file + ".toml", std::ios::binary) << to_toml(record);
}

void set_eps(GoldenRecord& record) {
  const std::string before = record.settings;
  // Other sections have an eps too.
  record.settings =
      std::regex_replace(before, std::regex(R"((\[optimizer\][^[]*\neps = )[^\n]*)"), "$013e-8");
  REQUIRE(record.settings != before);
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

/// A row of one tensor "master" with these values on the two sides.
BufferRow row_of(const std::vector<float>& first, const std::vector<float>& second) {
  const TemporaryFolder folder;
  write_tensors(folder.file("a"), {floats("x", first)});
  write_tensors(folder.file("b"), {floats("x", second)});
  const auto a = SafetensorsReader::open(folder.file("a"));
  const auto b = SafetensorsReader::open(folder.file("b"));
  BufferRow row;
  row.totals = compare_sets(a, b, pairs_by_name(a.header(), b.header())).totals;
  row.first_step = row.totals.equal_tensors == row.totals.tensors ? -1 : 1;
  return row;
}

}  // namespace

TEST_CASE("a recorded golden file is equal, buffer by buffer, also when it was moved") {
  const TemporaryFolder folder;
  fs::create_directories(folder.file("one"));
  const CliResult recorded =
      golden("record " + quoted(folder.file("one/g")) + one_run + "--dump-steps 3,6");
  CAPTURE(recorded.err);
  CHECK(recorded.exit_code == 0);
  fs::rename(folder.file("one"), folder.file("two"));
  const CliResult checked = golden("check " + quoted(folder.file("two/g")));
  CHECK(checked.exit_code == 0);
  CHECK(count(checked.out, "  equal\n") == 11);  // 9 kinds of numbers beside two moments
  CHECK(checked.out.find("environment") == std::string::npos);
  CHECK(SafetensorsReader::open(folder.file("two/g")).find("master.3.head.weight") != nullptr);
  CHECK(widest(checked.out.substr(checked.out.find('\n'))) <= 100);
}

TEST_CASE("other numbers are wrong: the first one is named, the environment before it") {
  const TemporaryFolder folder;
  const std::string file = folder.file("g");
  REQUIRE(golden("record " + quoted(file) + one_run).exit_code == 0);
  rewrite(file, [](GoldenRecord& record) {
    set_eps(record);
    REQUIRE(record.environment.front().first == "compiler");
    record.environment.front().second = "another 1.0";
  });
  const CliResult checked = golden("check " + quoted(file));
  CAPTURE(checked.out);
  CHECK(checked.exit_code == 1);
  CHECK(checked.out.find("compiler was another 1.0, is ") < checked.out.find("buffer "));
  CHECK(checked.out.find("first at  step 6  buffer step_scalars.eps\nvalues    got ") !=
        std::string::npos);
  CHECK(checked.out.find("none of these buffers has a derived bound") != std::string::npos);
  CHECK(checked.out.find("\nwrong\n") != std::string::npos);
  CHECK(golden("check --strict-bits " + quoted(file)).exit_code == 1);  // worse than a drift
}

TEST_CASE("recorded gradients belong to it, and must not change") {
  const TemporaryFolder folder;
  const std::string gradients = folder.file("grads");
  REQUIRE(run_cli("record --workload byte_gpt_tiny --dtype bf16 --steps 2 " + quoted(gradients))
              .exit_code == 0);
  const std::string file = folder.file("g");
  CHECK(golden("record " + quoted(file) + " --recipe adamw --gradients " + quoted(gradients))
            .exit_code == 0);
  CHECK(golden("check " + quoted(file)).exit_code == 0);
  CHECK(read_file(file + ".toml").find("gradients = 'grads'") != std::string::npos);
  std::string bytes = read_file(gradients);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  std::ofstream(gradients, std::ios::binary) << bytes;
  expect_refusal(golden("check " + quoted(file)),
                 "are not the input that " + file + " was made from");
}

TEST_CASE("golden update needs a reason, keeps it, and is refused in CI") {
  const TemporaryFolder folder;
  const std::string file = folder.file("g");
  REQUIRE(golden("record " + quoted(file) + one_run).exit_code == 0);
  rewrite(file, set_eps);
  const std::string before = read_file(file) + read_file(file + ".toml");
  expect_refusal(golden("update " + quoted(file)), "golden update has no reason");
  expect_refusal(golden("update " + quoted(file) + " --reason ' '"), "golden update has no reason");
  expect_refusal(golden("update " + quoted(file) + " --reason eps", "CI=true"), "where CI is set");
  CHECK(read_file(file) + read_file(file + ".toml") == before);
  const CliResult updated = golden("update " + quoted(file) + " --reason 'a larger eps'", "CI=");
  CHECK(updated.exit_code == 0);
  CHECK(updated.out.find(", was ") != std::string::npos);
  CHECK(golden("check " + quoted(file)).exit_code == 0);
  const GoldenRecord record = read_golden_record(file + ".toml");
  REQUIRE(record.history.size() == 2);
  CHECK(record.history[0].reason == "recorded");
  CHECK(record.history[1].reason == "a larger eps");
  CHECK(record.history[0].trajectory != record.history[1].trajectory);
  CHECK(record.history[1].trajectory == record.trajectory);
}

TEST_CASE("a file that cannot be judged ends with 2, and the other files are still judged") {
  const TemporaryFolder folder;
  const std::string file = folder.file("g");
  REQUIRE(golden("record " + quoted(file) + one_run + "--steps 1").exit_code == 0);
  expect_refusal(golden("record " + quoted(file) + one_run), "is there already");
  expect_refusal(golden("record " + quoted(folder.file("h")) + " byte_gpt_tiny"),
                 "choose one with --recipe");
  expect_refusal(
      golden("record " + quoted(folder.file("h")) + one_run + "--steps 2 --dump-steps 3"),
      "1 to 2");
  CHECK(golden("record " + quoted(folder.file("h")) + " nope").exit_code == 4);
  expect_refusal(golden("record"), "was given no file");
  expect_refusal(golden("chekc x"), "did you mean check?");
  expect_refusal(golden("check --recipe adam " + quoted(file)),
                 "--recipe was given to golden check");
  expect_refusal(golden("record x --strict-bits"), "--strict-bits was given to golden record");
  expect_refusal(golden("check " + quoted(folder.file("none"))), "there is no golden record");
  const CliResult both = golden("check " + quoted(folder.file("none")) + " " + quoted(file));
  CHECK(both.exit_code == 2);
  CHECK(both.out.find("\nequal\n") != std::string::npos);

  const std::string record = read_file(file + ".toml");
  rewrite(file, [](GoldenRecord& changed) { changed.contract_version = 1; });
  expect_refusal(golden("check " + quoted(file)),
                 "is of contract 1 and this program of contract 2");
  std::ofstream(file + ".toml") << "schema = 'zeroproof-golden/1'\n";
  expect_refusal(golden("check " + quoted(file)), "has no 'case'");
  std::ofstream(file + ".toml") << "schema = \n";
  expect_refusal(golden("check " + quoted(file)), "line 1");
  std::ofstream(file + ".toml") << record;
  CHECK(golden("check " + quoted(file)).exit_code == 0);
  std::ofstream(file, std::ios::app | std::ios::binary) << "x";
  expect_refusal(golden("check " + quoted(file)), "is not the one that");
}

TEST_CASE("golden: a changed member of the record is exit 7, and nothing is judged or written") {
  const TemporaryFolder folder;
  const std::string file = folder.file("g");
  REQUIRE(golden("record " + quoted(file) + one_run + "--steps 1").exit_code == 0);
  const std::string record = read_file(file + ".toml");
  const std::pair<const char*, const char*> rows[] = {
      {"\ntrajectory = '[^']*'", "\ntrajectory = '00000000000000000000000000000000'"},
      {"case = '", "case = 'x"},
      {"\nrecipe = '[^']*'", "\nrecipe = 'lion'"},
      {"reason = '[^']*'", "reason = 'reviewed'"},
      {"\nprogram = '[^']*'", "\nprogram = 'another'"},
      {"date = '[^']*'", "date = '1970-01-01'"},
      {"compiler = '[^']*'", "compiler = 'another 1.0'"},
      {"\ncontract_version = 2", "\ncontract_version = 1"},
      {"eps = [^\n]*", "eps = 3e-8"},
      {"\nrecord_digest = '[^']*'", "\nrecord_digest = '00000000000000000000000000000000'"}};
  for (const auto& row : rows) {
    const std::string pattern = row.first;
    CAPTURE(pattern);
    edit(file, pattern, row.second);
    const std::string changed = read_file(file + ".toml");
    expect_refusal(golden("check " + quoted(file)), " has record_digest ", 7);
    expect_refusal(golden("update " + quoted(file) + " --reason why"), " has record_digest ", 7);
    CHECK(read_file(file + ".toml") == changed);
    std::ofstream(file + ".toml", std::ios::binary) << record;
  }
  edit(file, "\nrecord_digest = [^\n]*", "");
  expect_refusal(golden("check " + quoted(file)), "has no 'record_digest'");
  // Spaces and comments are no members.
  std::ofstream(file + ".toml", std::ios::binary) << "# reviewed\n\n" + record;
  CHECK(golden("check " + quoted(file)).exit_code == 0);
  // A damaged one does not keep the others from being judged.
  edit(file, "case = '", "case = 'x");
  REQUIRE(golden("record " + quoted(folder.file("h")) + one_run + "--steps 1").exit_code == 0);
  const CliResult both = golden("check " + quoted(file) + " " + quoted(folder.file("h")));
  CHECK(both.exit_code == 7);
  CHECK(both.out.find("\nequal\n") != std::string::npos);
}

TEST_CASE("a drift needs a bound: without one changed bits are wrong, and a NaN always is") {
  const BoundOf half = [](BufferId) { return std::optional<double>(0.5); };
  CHECK(golden_verdict(row_of({1, 2}, {1, 2}), half) == GoldenVerdict::equal);
  CHECK(golden_verdict(row_of({1, 2}, {1, 2.5F}), half) == GoldenVerdict::bits_changed);
  CHECK(golden_verdict(row_of({1, 2}, {1, 2.51F}), half) == GoldenVerdict::wrong);
  CHECK(golden_verdict(row_of({1, 2}, {1, std::numeric_limits<float>::quiet_NaN()}), half) ==
        GoldenVerdict::wrong);
  CHECK(golden_verdict(row_of({1, 2}, {1, 2, 2}), half) == GoldenVerdict::wrong);  // another shape
  CHECK(golden_verdict(row_of({1, 2}, {1, 2.5F})) == GoldenVerdict::wrong);
  CHECK(contract_bound(BufferId::master) == std::nullopt);
  CHECK(contract_bound(BufferId::grad_norm) == std::nullopt);
}
