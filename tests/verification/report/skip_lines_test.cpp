// The lines with the reasons of skipped steps.

#include "verification/report/skip_lines.hpp"

#include <doctest.h>

#include <algorithm>

#include "tests/verification/cli/cli_support.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;

SkippedStep skip_of(std::int64_t step, const std::vector<NonfiniteTensor>& tensors) {
  return {step, 1037, 0x7F800000U, tensors};
}

const std::vector<NonfiniteTensor> three = {{"a.weight", 2304, {0x7F800000U, 3, 0}},
                                            {"b.bias", 48, {0x7FFFFFFFU, 1, 7}},
                                            {"c.weight", 1234567, {0x7FFFFFFFU, 1234567, 0}}};

}  // namespace

TEST_CASE("skip lines: name the tensors that fit, and count the others") {
  const SkippedStep skip = skip_of(4, three);
  const std::string all =
      "step 4 skipped: 3 of 1,037 tensors are not finite: a.weight 3 of 2,304, b.bias 1 of 48, "
      "c.weight 1,234,567 of 1,234,567";
  const std::string two =
      "step 4 skipped: 3 of 1,037 tensors are not finite: a.weight 3 of 2,304, b.bias 1 of 48 and "
      "1 more";
  CHECK(describe(skip, 1000) == all);
  CHECK(describe(skip, all.size()) == all);
  CHECK(describe(skip, all.size() - 1) == two);
  CHECK(describe(skip, two.size()) == two);
  const std::string one =
      "step 4 skipped: 3 of 1,037 tensors are not finite: a.weight 3 of 2,304 and 2 more";
  CHECK(describe(skip, two.size() - 1) == one);
  CHECK(describe(skip, 0) == one);  // it always names one
  CHECK(describe(skip_of(12, {three[1]}), 0) ==
        "step 12 skipped: 1 of 1,037 tensors is not finite: b.bias 1 of 48");
}

TEST_CASE("skip lines: a step may be skipped although every sum is finite") {
  SkippedStep skip = skip_of(1, {});
  skip.amax = 0x7F000000U;  // 2^127
  CHECK(describe(skip, 98) ==
        "step 1 skipped: all tensors are finite until they are unscaled, the largest magnitude is "
        "0x7f000000 "
        "(1.70141183e+38)");
}

TEST_CASE("skip lines: equal lines of several cases are printed once, and only a few lines") {
  Result one = training_result(CaseSpec{});
  one.training->skips = {skip_of(2, {three[0]}), skip_of(3, three)};
  Result other = one;
  other.training->skips[1] = skip_of(3, {three[1]});
  const Result none = training_result(CaseSpec{});
  CHECK(skip_lines({}, 4).empty());
  CHECK(skip_lines({&none}, 4).empty());
  Result ended = none;
  ended.training->ended = true;
  ended.training->steps = 3;
  CHECK(skip_lines({&ended, &ended}, 4) ==
        "  step 3 ended the run: a gradient is not finite, and on_nonfinite is error\n");
  const std::string text = skip_lines({&none, &one, &one, &other}, 4);
  CHECK(std::count(text.begin(), text.end(), '\n') == 3);
  CHECK(text.substr(0, 24) == "  step 2 skipped: 1 of 1");
  const std::string few = skip_lines({&one, &other}, 2);
  CHECK(std::count(few.begin(), few.end(), '\n') == 3);
  CHECK(few.find("  ... and 1 more skipped steps; --rows and the JSON report have them all") !=
        std::string::npos);
}

TEST_CASE("skip lines: shown for cases of one kind, with --rows for several kinds") {
  const std::string cases =
      "verify 'byte_gpt_tiny/adamw/*' --world self,threads:3 --stage 0,2 --dtype ";
  const auto lines = [&](const std::string& flags) {
    const std::string text = run_cli(cases + flags).out;
    std::int64_t count = 0;
    const std::string line =
        "\n  step 3 skipped: 1 of 37 tensors is not finite: head.weight 1 of 3,840\n";
    for (std::size_t at = text.find(line); at != std::string::npos; at = text.find(line, at + 1))
      ++count;
    return count;
  };
  CHECK(lines("bf16") == 1);
  CHECK(lines("bf16,fp16") == 0);
  CHECK(lines("bf16,fp16 --rows") == 2);
}
