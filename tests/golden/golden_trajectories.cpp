#include <algorithm>
#include <map>
#include <stdexcept>

#include "golden_rows.hpp"
#include "verification/training/training_suite.hpp"

namespace zeroproof::golden {
namespace {

using namespace zeroproof::verification;

/// Which cases stand for a trajectory: all recipes it has cases of, dtypes and both host candidates, on one rank
/// and on several that share every tensor unevenly. That stage, world and bucket do not matter is what
/// verification/matrix shows.
VerifyOptions options_for(int threads) {
  VerifyOptions options;
  options.twins = {Twin::host, Twin::host_fused};
  options.overrides = [threads](RunConfig& config) {
    config.worlds = {"self", "threads:3"};
    config.stages = {2};
    config.bucket_numels = {4096};
    config.omp_threads = {1 + threads / 4};  // three ranks are on few cores already
    config.dtypes = {DType::fp32, DType::bf16, DType::fp16};
  };
  return options;
}

std::string trajectory_name(const CaseSpec& spec) {
  return "trajectory " + spec.workload + "/" + spec.recipe + "/" + std::string(name(spec.dtype));
}

}  // namespace

std::vector<Row> trajectory_rows(int threads) {
  const VerifyOptions options = options_for(threads);
  std::vector<std::string> ids;
  for (const char* workload : {"byte_gpt_tiny", "byte_gpt_swiglu_tiny"}) {
    const std::vector<std::string> of_workload = training_suite().ids(options, workload);
    if (of_workload.empty())
      throw std::runtime_error("no case of " + std::string(workload) + " was selected");
    ids.insert(ids.end(), of_workload.begin(), of_workload.end());
  }
  RunReport report;
  training_suite().run(options, ids, report, [](double, const std::string&) {});
  std::map<std::string, Digest> digests;
  for (const Result& result : report.results) {
    const std::string key = trajectory_name(training_spec(result));
    const std::optional<Digest>& hash = result.training->candidate_hash;
    if (result.status != Status::pass || !hash || hash != result.training->reference_hash) {
      throw std::runtime_error(result.id + " is " + std::string(name(result.status)) + ": " + result.reason);
    }
    const auto [entry, is_new] = digests.emplace(key, *hash);
    if (!is_new && entry->second != *hash) {
      throw std::runtime_error(result.id + " has another trajectory than its companions");
    }
  }
  std::vector<Row> rows;
  for (const auto& [key, digest] : digests) rows.push_back({key, digest});
  return rows;
}

}  // namespace zeroproof::golden
