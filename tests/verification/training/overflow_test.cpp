// The place of the planted infinity, and the cases that recipes exclude.

#include "verification/cases/overflow.hpp"

#include <doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/float_formats.hpp"
#include "tests/verification/cli/cli_support.hpp"
#include "verification/cases/run_plan.hpp"

namespace overflow_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;

RunConfig named(const std::string& tensor) {
  RunConfig config;
  config.overflow_tensor = tensor;
  return config;
}

ErrorCode refusal(const std::string& tensor, const FlatLayout& layout) {
  try {
    overflow_tensor(named(tensor), layout);
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find(tensor) != std::string::npos);
    return error.code();
  }
  return ErrorCode::internal;
}

}  // namespace

TEST_CASE("planted infinity: last element of the named tensor, or of the last nonempty one") {
  const FlatLayout layout(
      {{"first", {3, 5}}, {"empty", {0}}, {"second", {2}}, {"nothing", {4, 0}}});
  CHECK(overflow_tensor(named(""), layout) == 2);
  CHECK(overflow_tensor(named("first"), layout) == 0);
  CHECK(refusal("empty", layout) == ErrorCode::config);
  CHECK(refusal("third", layout) == ErrorCode::config);
  CHECK(overflow_tensor(named(""), FlatLayout(std::vector<ParamSpec>{{"empty", {0}}})) == -1);

  const auto numel = static_cast<std::size_t>(layout.padded_numel());
  for (const std::int64_t tensor : {-1, 0, 2}) {
    std::vector<float> wide(numel, 1.0F);
    std::vector<fp16> half(numel, to_fp16(1.0F));
    plant_infinity(layout, tensor, {wide.data(), DType::fp32, layout.padded_numel()});
    plant_infinity(layout, tensor, {half.data(), DType::fp16, layout.padded_numel()});
    const std::int64_t expected = tensor < 0 ? -1 : tensor == 0 ? 14 : 1025;
    for (std::size_t i = 0; i < numel; ++i) {
      const bool here = static_cast<std::int64_t>(i) == expected;
      REQUIRE(std::isinf(wide[i]) == here);
      REQUIRE(std::isinf(to_float(half[i])) == here);
    }
  }
}

TEST_CASE("planted infinity: no part of the gradient turns it into NaN after a run diverged") {
  for (const char* grid : {"1x2x1", "1x1x2"}) {
    const tests::CliResult result = tests::run_cli(
        "verify byte_gpt_tiny/sgd_ema+model:even+micro_batches:1+overflow:last-step"
        "+on_nonfinite:propagate+rounding:stochastic+beta1:0+maximize:on+norm:inf+max_norm:none"
        "+clip_groups:two+master_dtype:bf16+param_groups:own-rate+decay:wsd+wsd_shape:exponential"
        "+schedule_unit:samples/host/stage1/threads:2/bf16/lockstep/bucket:4096/omp:1/grid:" +
        std::string(grid));
    CAPTURE(result.out);
    CHECK(result.out.find("1 pass, 0 fail") != std::string::npos);
  }
}

TEST_CASE("recipes: a recipe only for bf16 does not exclude other dtypes") {
  VerifyOptions options;
  for (const std::vector<DType>& dtypes :
       {std::vector<DType>{DType::fp32, DType::bf16, DType::fp16},
        std::vector<DType>{DType::fp16}}) {
    options.overrides = [&](RunConfig& config) { config.dtypes = dtypes; };
    std::vector<DType> drawn;
    std::int64_t others = 0;
    for (const CaseSpec& spec : cases_of(options, "byte_gpt_tiny")) {
      if (spec.recipe == "adamw-stochastic") {
        drawn.push_back(spec.dtype);
      } else {
        others += spec.dtype == DType::fp16 ? 1 : 0;
      }
    }
    CHECK(others > 0);
    CHECK(drawn.empty() == (dtypes.size() == 1));
    CHECK(std::ranges::all_of(drawn, [](DType dtype) { return dtype == DType::bf16; }));
  }
}

}  // namespace overflow_test
