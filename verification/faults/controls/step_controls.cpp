// Legal differences in whole steps: the small workload with another correct optimizer or input.

#include <cmath>
#include <cstring>
#include <limits>

#include "common/base/philox.hpp"
#include "common/comm/self.hpp"
#include "verification/compare/judge/rank_comparison.hpp"
#include "verification/faults/controls/control.hpp"
#include "verification/faults/controls/wrapped_optimizer.hpp"
#include "verification/training/case_run.hpp"

namespace zeroproof::verification {
namespace {

workload::Text drawn_text() {
  workload::Text text{"drawn", "controls", {}};
  const Philox philox(7, 0x434F4E54);
  for (std::uint64_t i = 0; i < 4096; ++i)
    text.bytes.push_back(static_cast<std::uint8_t>(32 + philox.below(i, 90)));
  return text;
}

Experiment small_experiment(std::uint64_t seed) {
  RunConfig config = tiny_config();
  config.seed = seed;
  return Experiment("byte_gpt_tiny", config, DType::fp16, drawn_text());
}

/// Result of the harness for one rank with the candidate returned by `make`.
struct Judged {
  std::int64_t compared = 0;
  std::int64_t skipped = 0;
  std::string complaint;
  Digest hash;
};

Judged judge_rank(const Experiment& experiment, std::int64_t bucket_numel,
                  const RankComparison::MakeOptimizer& make) {
  CaseSpec spec;
  spec.workload = experiment.workload();
  spec.stage = 1;
  spec.dtype = experiment.param_dtype();
  spec.bucket_numel = bucket_numel;
  const CaseLayout layout(experiment, spec, 1);
  const auto reference = make_self_communicator();
  const auto candidate = make_self_communicator();
  const auto harness = make_self_communicator();
  GradCache leaves(experiment);
  RankComparison pair(experiment, spec, layout, {reference.get(), candidate.get(), harness.get()},
                      1, make);
  for (std::int64_t step = 1; step <= experiment.config().steps; ++step) {
    pair.run_step(step, leaves, nullptr);
    leaves.forget();
  }
  Judged judged;
  for (const PhaseTally& tally : pair.tallies()) judged.compared += tally.compared;
  judged.skipped = pair.skipped_steps();
  if (pair.divergence()) judged.complaint = describe(*pair.divergence());
  judged.hash = pair.candidate_hash();
  if (judged.complaint.empty() && pair.candidate_hash() != pair.reference_hash()) {
    judged.complaint = "the trajectory hashes differ";
  }
  return judged;
}

void add(ControlOutcome& outcome, const Judged& judged) {
  outcome.compared += judged.compared;
  if (judged.complaint.empty()) return;
  ++outcome.flagged;
  outcome.first = judged.complaint;
}

ControlOutcome scratch_after_skip(std::uint64_t seed) {
  ControlOutcome outcome;
  const Experiment experiment = small_experiment(seed);
  std::int64_t scribbled = 0;
  const Judged judged = judge_rank(experiment, 4096, [&](const OptimizerSetup& setup) {
    return std::make_unique<Scribbler>(candidate_factory(Implementation::host)(setup),
                                       *setup.layout, scribbled);
  });
  add(outcome, judged);
  outcome.legal_differences = scribbled;
  return outcome;
}

ControlOutcome padding_content(std::uint64_t seed) {
  ControlOutcome outcome;
  const Experiment experiment = small_experiment(seed);
  for (const float junk : {0.0F, 42.0F, std::numeric_limits<float>::infinity()}) {
    std::int64_t changed = 0;
    add(outcome, judge_rank(experiment, 4096, [&](const OptimizerSetup& setup) {
          return std::make_unique<PaddingFiller>(candidate_factory(Implementation::host)(setup),
                                                 *setup.layout, junk, changed);
        }));
    outcome.legal_differences += changed;
  }
  return outcome;
}

ControlOutcome bucket_sizes(std::uint64_t seed) {
  ControlOutcome outcome;
  const Experiment experiment = small_experiment(seed);
  const RankComparison::MakeOptimizer make = candidate_factory(Implementation::host);
  std::optional<Digest> first;
  for (const std::int64_t bucket : {1024, 4096, 262144}) {
    const Judged judged = judge_rank(experiment, bucket, make);
    add(outcome, judged);
    if (first) ++outcome.legal_differences;
    if (first && *first != judged.hash) {
      ++outcome.flagged;
      outcome.first = "bucket " + std::to_string(bucket) + " has a different trajectory";
    }
    first = judged.hash;
  }
  return outcome;
}

}  // namespace

std::vector<Control> step_controls() {
  return {
      {"scratch-after-skip", "gradient buffers are scratch after a skipped step (R6)",
       scratch_after_skip},
      {"padding-content", "the content of padding is never compared (R13)", padding_content},
      {"bucket-sizes", "the numbering of elements does not depend on the bucket size (R13)",
       bucket_sizes},
  };
}

}  // namespace zeroproof::verification
