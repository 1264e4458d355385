// Kernels that lose a NaN or an infinity fail under --accept any-order, at the element that lost it.

#include <doctest.h>

#include "tests/verification/interfaces/plugin/kernels/kernel_judge.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;

struct LostNonfinite {
  std::string kind;       ///< of lost_nonfinite.cpp
  std::string operation;  ///< the judged operation
  std::string operand;    ///< of the first error
  std::string says;       ///< in the report
};

const std::vector<LostNonfinite> rows = {
    {"grad_nan_to_num", "adamw_update", "exp_avg", "and has to be NaN"},
    {"grad_nan_to_num", "lion_update", "exp_avg", "and has to be"},
    {"grad_nan_to_num", "sgd_update", "master", "and has to be"},
    {"grad_clamped", "adamw_update", "exp_avg", "and has to be"},
    {"exp_avg_keeps", "adamw_update", "exp_avg", "and has to be NaN"},
    {"exp_avg_sq_zeroed", "adamw_update", "exp_avg_sq", "is 0 and has to be NaN"},
    {"max_by_fmaxf", "adamw_update", "max_exp_avg_sq", "and has to be NaN"},
    {"results_finite", "adamw_update", "exp_avg_sq", "and has to be inf"},
    {"results_finite", "sgd_update", "master", "and has to be"},
    {"master_keeps", "adamw_update", "master", "and has to be NaN"},
    {"sign_by_comparison", "lion_update", "master", "and has to be NaN"},
    {"clip_by_fmaxf", "clip", "grad", "is -3.40282347e+38 and has to be NaN"},
    {"norm_skips", "grad_norm_p", "grad_norm", "and has to be NaN"},
    {"cast_adds", "cast_to_bf16", "target", "rounds once"}};

Result judged(const LostNonfinite& row, std::string_view kind) {
  const auto candidate = kernel("lost_nonfinite", kind);
  OpRunOptions options;
  options.any_order = true;
  return run_op_cases({{find_op(row.operation), candidate.get(), Fill::special}}, options).front();
}

}  // namespace

TEST_CASE("lost NaNs and infinities: every kernel fails at the element that lost one") {
  for (const LostNonfinite& row : rows) {
    CAPTURE(row.kind);
    CAPTURE(row.operation);
    const Result lost = judged(row, row.kind);
    const std::string said = described(lost);
    CAPTURE(said);
    CHECK(lost.status == Status::fail);
    REQUIRE(lost.divergence);
    CHECK(lost.divergence->buffer == row.operand);
    CHECK(said.find(row.says) != std::string::npos);
    CHECK(said.find("seed ") != std::string::npos);
    CHECK(lost.differing > 0);
    CHECK(lost.differing < lost.compared);  // errors alone
    CHECK(judged(row, "right").status == Status::pass);
  }
}
