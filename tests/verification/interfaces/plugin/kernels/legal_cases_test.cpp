// Random legal calls of correct kernels: a false alarm is a defect of the judge.

#include <doctest.h>

#include <chrono>
#include <cstdio>
#include <map>

#include "tests/verification/interfaces/plugin/kernels/kernel_judge.hpp"
#include "tests/verification/interfaces/plugin/kernels/legal_case.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;

const std::vector<std::shared_ptr<const OpCandidate>>& candidates() {
  static const std::vector<std::shared_ptr<const OpCandidate>> all = [] {
    std::vector<std::shared_ptr<const OpCandidate>> loaded;
    for (const RightKernel& row : right_kernels()) loaded.push_back(kernel(row.library, row.kind));
    return loaded;
  }();
  return all;
}

/// The case of a draw, by a correct kernel.
Result judge_legal_case(std::uint64_t seed, std::size_t which) {
  LegalDraw draw(seed);
  const RightKernel& row = right_kernels()[which];
  const Op op = draw.operation(std::string(row.operations[draw.word() % row.operations.size()]));
  const Fill fill = draw.fill(op);
  OpRunOptions options;
  options.seed = draw.word();
  options.any_order = !row.has_bits;
  const OpCaseSpec spec = {&op, candidates()[which].get(), fill};
  Result result = run_op_cases({spec}, options).front();
  const std::string said =
      "draw " + std::to_string(seed) + ", " + result.id + ": " + described(result);
  CAPTURE(said);
  CHECK_FALSE(failed(result.status));
  return result;
}

void judge_legal_cases(int count, std::uint64_t first_seed) {
  const std::size_t kernels = candidates().size();
  REQUIRE(kernels >= 8);
  std::map<Status, int> outcomes;
  std::int64_t compared = 0, other_bits = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < count; ++i) {
    const Result result = judge_legal_case(first_seed + static_cast<std::uint64_t>(i),
                                           static_cast<std::size_t>(i) % kernels);
    ++outcomes[result.status];
    compared += result.compared;
    other_bits += result.legal_differences;
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("false alarms: %d of %d random legal cases of %d kernels\n",
              count - outcomes[Status::pass] - outcomes[Status::mistrusted], count,
              static_cast<int>(kernels));
  std::printf("%d proved little; %lld results compared, %lld with other bits; %.0f s\n",
              outcomes[Status::mistrusted], static_cast<long long>(compared),
              static_cast<long long>(other_bits), seconds);
  CHECK(outcomes[Status::pass] >= count * 9 / 10);
  CHECK(other_bits > 0);
}

}  // namespace

TEST_CASE("legal cases: no false alarm in random cases") { judge_legal_cases(300, 1); }

TEST_CASE("legal cases beyond the bound's conditions do not fail") {
  // One to three elements, every one of them beyond the bound's conditions.
  for (const std::uint64_t seed :
       {1254, 2313, 2921, 5523, 5851, 6189, 6569, 7565, 8816, 8969, 9050, 9180, 10529, 10697}) {
    const Result result =
        judge_legal_case(seed, static_cast<std::size_t>((seed - 1001) % right_kernels().size()));
    CHECK(result.status == Status::mistrusted);
    CHECK(result.legal_differences > 0);
  }
}

TEST_CASE("nightly: legal cases: no false alarm in 10,000 random cases") {
  judge_legal_cases(10000, 1001);
}
