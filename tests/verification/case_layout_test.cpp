// Models that tensor parallel ranks cannot hold as a case wants them are refused before anything runs.

#include <doctest.h>

#include "common/base/error.hpp"
#include "verification/suite/selection.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;

/// What becomes of a case on 1x1x4 ranks: "pass", or the refusal.
std::string outcome(int hidden, std::int64_t bucket, LayoutKind layout) {
  VerifyOptions options;
  options.patterns = {"byte_gpt_tiny"};
  options.overrides = [=](RunConfig& config) {
    config.model = {.layers = 1, .width = 20, .heads = 4, .hidden = hidden, .context = 16};
    config.optimizer.norm = NormForm::exact;
    config.optimizer.max_norm = 0;
    config.steps = 2;
    config.overflow_step = 0;
    config.stages = {1};
    config.dtypes = {DType::bf16};
    config.worlds = {"threads:4"};
    config.grids = {"1x1x4"};
    config.layouts = {layout};
    config.bucket_numels = {bucket};
    config.omp_threads = {1};
  };
  options.twins = {Twin::host};
  options.recipes = {"adamw"};
  bool began = false;
  try {
    const RunReport report =
        run_selection(options, select_cases(options), [&](double, const std::string&) { began = true; });
    return std::string(name(report.results.at(0).status));
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::config);
    CHECK_FALSE(began);
    return error.what();
  }
}

}  // namespace

TEST_CASE("an uneven hidden width is cut where buckets agree, and refused where they do not") {
  CHECK(outcome(36, 2048, LayoutKind::megatron) == "pass");
  CHECK(outcome(37, 4096, LayoutKind::megatron) == "pass");
  const std::string refused = outcome(37, 2048, LayoutKind::megatron);
  CHECK(refused.find("the buckets of TP rank 3 hold other") != std::string::npos);
  CHECK(refused.find("use another --bucket") != std::string::npos);
  CHECK(outcome(205, 1024, LayoutKind::contract) == "pass");
  CHECK(outcome(205, 4096, LayoutKind::contract).find("the buckets of TP rank") != std::string::npos);
}
