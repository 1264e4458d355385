// Golden files of one call: equal, changed within the bound of any legal order, or wrong.

#include <doctest.h>

#include <cmath>

#include "common/base/error.hpp"
#include "tests/support/user_candidate.hpp"
#include "tests/verification/cli/cli_support.hpp"
#include "tests/verification/ops/changed_adamw.hpp"
#include "verification/interfaces/files/call_file.hpp"
#include "verification/interfaces/files/golden_call.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;

OpFunction unscaled_by(float (*how)(float)) {
  return [how](OpCall& call) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(call.numel()); ++i) {
      call.get<float>(1)[i] = how(call.in<float>(0)[i]);
    }
    call.get<std::uint32_t>(2)[0] = 0;
  };
}

/// A third, by a product and by a quotient, and another function.
constexpr float third = 0x1.555556p-2F;
float product(float x) { return x * third; }
float quotient(float x) { return x / (1 / third); }
float other(float x) { return x * 0.3334F; }

struct Golden {
  TemporaryFolder folder;
  std::string file = folder.file("golden.safetensors");
  explicit Golden(const CallRequest& request) { record_golden_call(request, file); }
  GoldenCallCheck by(const std::string& op, const OpFunction& run) const {
    const UserCandidate user(op, run);
    return check_golden_call(file, &user);
  }
};

}  // namespace

TEST_CASE("golden call: reference equal, another order within its bound, another formula wrong") {
  const Golden golden({"op/unscale", "training", "1003", "3", "1"});
  CHECK(of_a_call(golden_record_of(golden.file)));
  CHECK(check_golden_call(golden.file, nullptr).verdict() == GoldenVerdict::equal);
  CHECK(golden.by("unscale", unscaled_by(product)).verdict() == GoldenVerdict::equal);
  const GoldenCallCheck amber = golden.by("unscale", unscaled_by(quotient));
  CHECK(amber.verdict() == GoldenVerdict::bits_changed);
  REQUIRE(amber.rows.size() == 2);
  CHECK(amber.rows[0].differing > 100);
  CHECK(amber.rows[0].ratio->worst > 0.5);
  CHECK(amber.rows[1].verdict() == GoldenVerdict::equal);  // the flag
  const std::string text = to_text(amber, "a file");
  CAPTURE(text);
  CHECK(text.find("bits changed within bound, at most 0.") != std::string::npos);
  const GoldenCallCheck beyond = golden.by("unscale", unscaled_by(other));
  CHECK(beyond.verdict() == GoldenVerdict::wrong);
  CHECK(to_text(beyond, "a file").find("wrong, unscaled_grad[") != std::string::npos);
  const auto scribbles = [](OpCall& call) {
    unscaled_by(product)(call);
    call.get<float>(1).data()[-1] = 1;
  };
  const Golden small({"op/unscale", "training", "8", "3", "1"});
  CHECK(small.by("unscale", scribbles).verdict() == GoldenVerdict::wrong);
  CHECK(small.by("unscale", [](OpCall&) { throw CandidateFailure(Status::crashed, "it died"); })
            .broken == "it died");
  CHECK_THROWS_AS(small.by("clip", unscaled_by(product)), Error);
}

TEST_CASE("golden call: changed bits without a bound, or beyond its conditions, fail") {
  const Golden cast({"op/cast_to_bf16", "training", "100", "3", "0"});
  const GoldenCallCheck wrong = cast.by("cast_to_bf16", [](OpCall& call) {
    find_op("cast_to_bf16")->reference(call);
    *static_cast<unsigned char*>(call.view(1).data) ^= 1U;
  });
  CHECK(wrong.verdict() == GoldenVerdict::wrong);
  CHECK(to_text(wrong, "x").find("because it rounds once, to nearest even") != std::string::npos);
  const Golden special({"op/unscale", "special", "1003", "3", "3"});
  const GoldenCallCheck beyond = special.by("unscale", [](OpCall& call) {
    find_op("unscale")->reference(call);
    for (float& x : call.get<float>(1))
      x = std::isfinite(x) && std::fabs(x) > 0x1p100F ? std::nextafter(x, 0.0F) : x;
  });
  CHECK(beyond.verdict() != GoldenVerdict::equal);
}

TEST_CASE("golden call: special numbers of another order pass by class, and a lost NaN is wrong") {
  const Golden golden({"op/adamw_update", "special", "4001", "3", "0"});
  const GoldenCallCheck legal = golden.by("adamw_update", adamw_decay_as_factor);
  const std::string text = to_text(legal, "a file");
  CAPTURE(text);
  CHECK(legal.verdict() == GoldenVerdict::bits_changed);
  CHECK(text.find("by class, 0 not at all") != std::string::npos);
  const GoldenCallCheck lost = golden.by("adamw_update", adamw_without_nan);
  const std::string why = to_text(lost, "a file");
  CAPTURE(why);
  CHECK(lost.verdict() == GoldenVerdict::wrong);
  CHECK(why.find("and has to be NaN; judged: ") != std::string::npos);
}

TEST_CASE("golden call: a library's own bits are equal, moved within the bound, or wrong") {
  const UserCandidate another("adamw_update", adamw_decay_as_factor);
  const UserCandidate lost("adamw_update", adamw_without_nan);
  const UserCandidate reference("adamw_update", find_op("adamw_update")->reference);
  const TemporaryFolder folder;
  const std::string file = folder.file("own.safetensors");
  const CallRequest request{"op/adamw_update", "special", "4001", "3", "0"};
  CHECK_THROWS_WITH_AS(record_golden_call(request, file, &lost),
                       doctest::Contains("has to be NaN (a golden file has correct results alone)"),
                       Error);
  CHECK_THROWS_AS(golden_record_of(file), Error);  // nothing was written

  const GoldenRecord record = record_golden_call(request, file, &another);
  CHECK(record.recorded_by == another.side());
  CHECK(golden_record_of(file).recorded_by == another.side());
  const GoldenCallCheck same = check_golden_call(file, &another);
  CHECK(same.verdict() == GoldenVerdict::equal);
  const GoldenCallCheck moved = check_golden_call(file, &reference);
  CHECK(moved.verdict() == GoldenVerdict::bits_changed);
  CHECK(moved.rows.front().differing > 100);
  CHECK(check_golden_call(file, &lost).verdict() == GoldenVerdict::wrong);
  CHECK_THROWS_WITH_AS(check_golden_call(file, nullptr), doctest::Contains("add --plugin"), Error);

  CHECK_THROWS_WITH_AS(update_golden_call(file, "why"), doctest::Contains("add --plugin"), Error);
  CHECK_THROWS_AS(update_golden_call(file, "why", &lost), Error);
  CHECK(check_golden_call(file, &another).verdict() == GoldenVerdict::equal);  // it is as before
  CHECK(update_golden_call(file, "in another order", &reference).history.size() == 2);
  CHECK(check_golden_call(file, &reference).verdict() == GoldenVerdict::equal);
  CHECK(check_golden_call(file, &another).verdict() == GoldenVerdict::bits_changed);

  const Golden plain(request);
  CHECK_THROWS_WITH_AS(update_golden_call(plain.file, "why", &another),
                       doctest::Contains("leave --plugin out"), Error);
}

TEST_CASE("golden call: a mismatch names its file and the command that updates it") {
  const TemporaryFolder folder;
  const std::string file = folder.file("g.safetensors");
  REQUIRE(run_cli("golden record " + quoted(file) + " op/cast_to_bf16 --numel 9").exit_code == 0);
  const SafetensorsReader reader = SafetensorsReader::open(file);
  const CallChoice choice = described_call(reader, file);
  OpCall results = reference_results(choice);
  *static_cast<unsigned char*>(results.view(1).data) ^= 1U;
  GoldenRecord record = golden_record_of(file);
  write_call(choice, file, &results);
  write_golden_record(record, file, digest_of(choice, results), "with a changed bit");
  const CliResult wrong = run_cli("golden check " + quoted(file) + " --report text,github");
  CAPTURE(wrong.out);
  CHECK(wrong.exit_code == 1);
  CHECK(wrong.out.find("zeroproof golden update " + file + " --reason TEXT\n") !=
        std::string::npos);
  CHECK(wrong.out.find("\n::error file=") != std::string::npos);
  CHECK(wrong.out.find("title=golden%3A wrong::" + file) != std::string::npos);
}

TEST_CASE("golden call: command line, and update with a reason") {
  const TemporaryFolder folder;
  const std::string file = quoted(folder.file("g.safetensors"));
  CHECK(run_cli("golden record " + file + " op/adamw_update/fill:ties --numel 77 --variant 1")
            .exit_code == 0);
  const CliResult equal = run_cli("golden check " + file);
  CAPTURE(equal.out);
  CHECK(equal.exit_code == 0);
  CHECK(equal.out.find("op/adamw_update, fill ties, numel 77, seed 1, variant typical amsgrad") !=
        std::string::npos);
  CHECK(equal.out.ends_with("equal\n\n"));
  expect_refusal("golden record " + file + " op/adamw_update", "is there already");
  const std::string more = quoted(folder.file("more.safetensors"));
  expect_refusal("golden record " + more + " op/adamw_update --steps 3",
                 "an operation has no recipe");
  expect_refusal("golden record " + more + " byte_gpt_tiny --numel 3", "leave them out");
  expect_refusal("golden record " + more + " op/adamw_updat", "did you mean adamw_update?");
  expect_refusal("golden record " + more + " byte_gpt_tiny --plugin x", "have no bound");
  expect_refusal("golden record " + more + " op/clip --report github", "belongs to golden check");
  expect_refusal("golden check " + file + " --report json:x", "it has the reports text and github");
  const GoldenRecord renewed = update_golden_call(folder.file("g.safetensors"), "a test");
  CHECK(renewed.history.size() == 2);
  CHECK(renewed.history[0].trajectory == renewed.history[1].trajectory);
  CHECK(run_cli("golden check " + file).exit_code == 0);
}

TEST_CASE("golden call: diff of two result files reports the bounds") {
  const Golden golden({"op/unscale", "training", "1003", "3", "1"});
  const GoldenRecord record = golden_record_of(golden.file);
  OpCall made(*find_op("unscale"), {Fill::training, 1003, 0, 1, 1, 3});
  const CallChoice choice = choose_call({"op/unscale", "training", "1003", "3", "1"});
  unscaled_by(quotient)(made);
  const std::string theirs = golden.folder.file("theirs.safetensors");
  write_call(choice, theirs, &made);
  const std::string line = bounds_of_results(golden.file, theirs);
  CAPTURE(line);
  CHECK(line.find("after.unscaled_grad: in the second file at most 0.") == 0);
  CHECK(line.find("(bits changed within bound)") != std::string::npos);
  const CliResult diff = run_cli("diff " + quoted(golden.file) + " " + quoted(theirs));
  CHECK(diff.exit_code == 1);
  CHECK(diff.out.find(line) != std::string::npos);
  CHECK(bounds_of_results(golden.file, golden.file).empty());
}
