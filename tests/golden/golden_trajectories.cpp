#include <algorithm>
#include <map>
#include <stdexcept>

#include "golden_rows.hpp"
#include "verification/training/training_suite.hpp"

namespace zeroproof::golden {
namespace {

using namespace zeroproof::verification;

/// Recipes of a workload in dtypes: one trajectory for each pair.
struct Chosen {
  const char* workload;
  std::vector<std::string>
      recipes;  ///< empty: all of byte_gpt_tiny, for other workloads that of their settings
  std::vector<DType> dtypes;
};

/// After the first two: 8-bit parameters (R24), and state in fewer bits (R25), with and without
/// scales.
const std::vector<Chosen>& chosen() {
  const std::vector<DType> plain = {DType::fp32, DType::bf16, DType::fp16};
  static const std::vector<Chosen> all = {
      {"byte_gpt_tiny", {}, plain},
      {"byte_gpt_swiglu_tiny", {}, plain},
      {"byte_gpt_tiny",
       {"fp8-current", "fp8-delayed", "fp8-blockwise", "fp8-mxfp8"},
       {DType::e4m3, DType::e5m2}},
      {"byte_gpt_tiny", {"adamw+exp_avg_dtype:e4m3+exp_avg_sq_dtype:fp16"}, plain},
      {"byte_gpt_tiny", {"sgd+exp_avg_dtype:e4m3"}, {DType::bf16}},
      {"byte_gpt_tiny",
       {"adamw+exp_avg_dtype:bf16+exp_avg_sq_dtype:bf16+master_dtype:bf16",
        "adamw-stochastic+master_dtype:bf16"},
       {DType::bf16}},
  };
  return all;
}

/// For every trajectory both host candidates, on one rank and on several with uneven shards of
/// every tensor. verification/matrix covers the independence of stage, world and bucket.
VerifyOptions options_for(const Chosen& what, int threads) {
  VerifyOptions options;
  options.implementations = {Implementation::host, Implementation::host_fused};
  options.recipes = what.recipes;
  options.overrides = [&what, threads](RunConfig& config) {
    config.worlds = {"self", "threads:3"};
    config.stages = {2};
    config.bucket_numels = {4096};
    config.omp_threads = {1 + threads / 4};  // three ranks already share few cores
    config.dtypes = what.dtypes;
  };
  return options;
}

std::string trajectory_name(const CaseSpec& spec) {
  return "trajectory " + spec.workload + "/" + spec.recipe + "/" + std::string(name(spec.dtype));
}

/// Adds the digests of the cases of one choice.
void add_digests(const Chosen& what, int threads, std::map<std::string, Digest>& digests) {
  const VerifyOptions options = options_for(what, threads);
  const std::vector<std::string> ids = training_suite().ids(options, what.workload);
  if (ids.empty())
    throw std::runtime_error("no case of " + std::string(what.workload) + " was selected");
  RunReport report;
  training_suite().run(options, ids, report, [](double, const std::string&) {});
  for (const Result& result : report.results) {
    const std::string key = trajectory_name(training_spec(result));
    const std::optional<Digest>& hash = result.training->candidate_hash;
    if (result.status != Status::pass || !hash || hash != result.training->reference_hash) {
      throw std::runtime_error(result.id + " is " + std::string(name(result.status)) + ": " +
                               result.reason);
    }
    const auto [entry, is_new] = digests.emplace(key, *hash);
    if (!is_new && entry->second != *hash) {
      throw std::runtime_error(result.id + " has a different trajectory than the other cases");
    }
  }
}

}  // namespace

std::vector<Row> trajectory_rows(int threads) {
  std::map<std::string, Digest> digests;
  for (const Chosen& what : chosen()) add_digests(what, threads, digests);
  std::vector<Row> rows;
  for (const auto& [key, digest] : digests) rows.push_back({key, digest});
  return rows;
}

}  // namespace zeroproof::golden
