// Correct kernels are not flagged: with the contract's bits, or in another legal order.

#include <doctest.h>

#include <algorithm>
#include <cstdio>

#include "tests/verification/interfaces/plugin/kernels/kernel_judge.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;

/// Judges every correct kernel on the fills that `takes` accepts; returns the number of elements
/// without the contract's bits.
template <class Takes>
std::int64_t judge_right(const Takes& takes) {
  std::int64_t differing = 0;
  int judged = 0, flagged = 0;
  for (const RightKernel& row : right_kernels()) {
    const std::string name = std::string(row.library) + " " + std::string(row.kind);
    CAPTURE(name);
    const std::shared_ptr<const OpCandidate> candidate = kernel(row.library, row.kind);
    std::int64_t its_own = 0;
    bool fails = false;
    for (const std::string_view operation : row.operations) {
      const Op* op = find_op(std::string(operation));
      std::vector<OpCaseSpec> cases;
      for (const Fill fill : op->fills) {
        if (takes(*op, fill)) cases.push_back({op, candidate.get(), fill});
      }
      OpRunOptions options;
      options.any_order = !row.has_bits;
      for (const Result& result : run_op_cases(cases, options)) {
        const std::string said = result.id + ": " + described(result);
        CAPTURE(said);
        CHECK(result.status == Status::pass);
        fails = fails || failed(result.status);
        its_own += result.legal_differences;
      }
    }
    CHECK((its_own == 0) == row.has_bits);  // another order has other bits
    ++judged;
    flagged += fails ? 1 : 0;
    differing += its_own;
  }
  std::printf("flagged: %d of %d right kernels; %lld results had other bits\n", flagged, judged,
              static_cast<long long>(differing));
  CHECK(judged >= 16);
  return differing;
}

}  // namespace

TEST_CASE("correct kernels: all pass") {
  judge_right([](const Op& op, Fill fill) {
    const bool trains = std::ranges::count(op.fills, Fill::training) > 0;
    return fill == (trains ? Fill::training : op.fills.front());
  });
}

TEST_CASE("slow: correct kernels: all pass on all numbers") {
  judge_right([](const Op&, Fill) { return true; });
}
