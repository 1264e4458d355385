// Models that the tensor parallel ranks of a case cannot hold are refused before anything runs.

#include <doctest.h>

#include "common/base/error.hpp"
#include "common/layout/peer_layouts.hpp"
#include "verification/cases/case_layout.hpp"
#include "verification/cases/experiment.hpp"
#include "verification/cases/suites/selection.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;

/// The outcome of a case on 1x1x4 ranks: "pass", or the refusal.
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
  options.implementations = {Implementation::host};
  options.recipes = {"adamw"};
  bool began = false;
  try {
    const RunReport report = run_selection(options, select_cases(options),
                                           [&](double, const std::string&) { began = true; });
    return std::string(name(report.results.at(0).status));
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::config);
    CHECK_FALSE(began);
    return error.what();
  }
}

}  // namespace

TEST_CASE("CaseLayout: splits an uneven hidden width where buckets agree, refuses it elsewhere") {
  CHECK(outcome(36, 2048, LayoutKind::megatron) == "pass");
  CHECK(outcome(37, 4096, LayoutKind::megatron) == "pass");
  const std::string refused = outcome(37, 2048, LayoutKind::megatron);
  CHECK(refused.find("the buckets of TP rank 3 hold other") != std::string::npos);
  CHECK(refused.find("use another --bucket") != std::string::npos);
  CHECK(outcome(205, 1024, LayoutKind::contract) == "pass");
  CHECK(outcome(205, 4096, LayoutKind::contract).find("the buckets of TP rank") !=
        std::string::npos);
}

TEST_CASE("CaseLayout: layouts that shard param groups separately do so in cases") {
  RunConfig config = workload_defaults("byte_gpt_tiny");
  GroupRule head;
  head.name = "head";
  head.match = {"head.*", "block0.*"};
  config.param_groups = {head};
  const Experiment grouped("byte_gpt_tiny", config, DType::bf16, load_text(config));
  CaseSpec spec;
  spec.bucket_numel = 4096;
  for (const LayoutKind kind :
       {LayoutKind::deepspeed_flat, LayoutKind::greedy, LayoutKind::fsdp2}) {
    spec.place.layout = kind;
    const CaseLayout cut(grouped, spec, 3);
    const ShardMap& shards = cut.local(0).shards;
    const FlatLayout& layout = grouped.layout();
    const ShardMap wanted = make_shard_map(kind, layout, 3, 4096, grouped.group_of_tensor());
    const ShardMap without = make_shard_map(kind, layout, 3, 4096);
    CHECK(shards.shard(1) == wanted.shard(1));
    CHECK((shards.shard(1) == without.shard(1)) == (kind == LayoutKind::fsdp2));
  }
}
