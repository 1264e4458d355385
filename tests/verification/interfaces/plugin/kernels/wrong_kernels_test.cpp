#include <doctest.h>

#include "tests/verification/interfaces/plugin/kernels/kernel_judge.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;

struct WrongKernel {
  std::string kind;       ///< of wrong_kernels.cpp
  std::string operation;  ///< the judged operation
  Fill fill;
  std::string operand;  ///< place of the first difference
  std::string says;     ///< in the report; derived from the error
};

const std::vector<WrongKernel> wrong_kernels = {
    {"found_nan_only", "unscale", Fill::special, "found_inf", "scale 1,"},
    {"numel_of_call_before", "clip", Fill::training, "grad", "their previous values"},
    {"in_place_forgotten", "clip", Fill::training, "grad", "in place"},
    {"nan_clipped", "clip_value", Fill::special, "grad", "limit 1e-3"},
    {"norm_without_eps", "clip_coef", Fill::sweep, "clip_coef", "differs"},
    {"sum_without_tail", "grad_norm_p", Fill::training, "grad_norm", "numel 1,"},
    {"floor_ignored", "loss_scaler_update", Fill::sweep, "after", "after[0]"},
    {"not_saturated", "cast_to_e4m3", Fill::wide, "target", "they hold NaN"},
    {"words_shared", "stochastic_cast_to_bf16", Fill::training, "target", "target[1]"},
    {"subnormals_flushed", "widen_fp16", Fill::patterns, "target", "they hold 0"}};

Result judged(const WrongKernel& row, std::string_view kind) {
  const auto candidate = kernel("wrong_kernels", kind);
  return run_op_cases({{find_op(row.operation), candidate.get(), row.fill}}, {}).front();
}

}  // namespace

TEST_CASE("wrong kernels: the judge names the operand and the place of every error") {
  for (const WrongKernel& row : wrong_kernels) {
    CAPTURE(row.kind);
    const Result wrong = judged(row, row.kind);
    const std::string said = described(wrong);
    CAPTURE(said);
    CHECK(wrong.status == Status::fail);
    REQUIRE(wrong.divergence);
    CHECK(wrong.divergence->buffer == row.operand);
    CHECK(said.find(row.says) != std::string::npos);
    CHECK(judged(row, "right").status == Status::pass);
  }
}
