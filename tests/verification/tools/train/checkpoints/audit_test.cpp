// One flipped bit in the memory of one rank, once: the audit names its step, its buffer and its
// bucket, and reports no difference in a correct run.

#include <doctest.h>

#include <optional>

#include "tests/support/temporary_folder.hpp"
#include "tests/verification/training/training_support.hpp"
#include "verification/faults/controls/wrapped_optimizer.hpp"
#include "verification/tools/train/checkpoints/audit.hpp"
#include "verification/tools/train/training_identity.hpp"
#include "verification/tools/train/training_job.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;

/// The position of a flipped bit: after a phase of a step, on one rank, in the middle of its part
/// of a buffer.
struct Flip {
  std::int64_t step = 0;
  Phase phase = Phase::update;
  BufferId buffer = BufferId::master;
  int rank = 0;
  int bit = 20;
};

class FlippingOptimizer final : public WrappedOptimizer {
 public:
  FlippingOptimizer(const OptimizerSetup& setup, const Flip& flip)
      : WrappedOptimizer(host_optimizer()(setup), *setup.layout),
        layout_(*setup.layout),
        flip_(flip),
        rank_(setup.comm->rank()) {}

  void run_phase(Phase phase, GradSource& leaves) override {
    WrappedOptimizer::run_phase(phase, leaves);
    step_ += phase == Phase::prepare ? 1 : 0;
    if (step_ != flip_.step || phase != flip_.phase || rank_ != flip_.rank) return;
    for (const ExposedBuffer& buffer : exposed(phase)) {
      if (buffer.id != flip_.buffer) continue;
      const std::vector<Piece> pieces = layout_.pieces(buffer.ranges);
      const Piece& piece = pieces[pieces.size() / 2];
      auto* const bytes = static_cast<unsigned char*>(buffer.view.data) +
                          (piece.local_begin + piece.numel / 2) * num_bytes(buffer.view.dtype);
      bytes[flip_.bit / 8] ^= static_cast<unsigned char>(1U << (flip_.bit % 8));
    }
    overwritten(phase);
  }

 private:
  const FlatLayout& layout_;
  const Flip flip_;
  const int rank_;
  std::int64_t step_ = 0;
};

/// A run with its log and checkpoints in a folder, audited.
struct AuditedRun {
  explicit AuditedRun(const std::optional<Flip>& flip, std::int64_t steps = 12, int world = 3,
                      int stage = 2)
      : training(DType::bf16, "adamw", [](RunConfig& config) { config.steps = 1'000'000; }) {
    training.config.steps = steps;
    const CaseSpec spec = training.spec(world, stage);
    const Experiment experiment("byte_gpt_tiny", training.config, DType::bf16,
                                load_text(training.config), "adamw");
    JobSettings job{experiment, spec, training_identity(experiment, spec, ""),
                    [&](const OptimizerSetup& setup) -> std::unique_ptr<DistributedOptimizer> {
                      if (!flip) return host_optimizer()(setup);
                      return std::make_unique<FlippingOptimizer>(setup, *flip);
                    }};
    job.folder = folder.file("run");
    job.save_every = 5;
    job.log = folder.file("log.jsonl");
    const auto ranks = make_local_world(spec.world, 60);
    run_training_job(job, *ranks);
    settings.folder = job.folder;
    settings.log = job.log;
    settings.world = parse_world("self");
  }

  AuditResult audited() const { return audit(settings); }

  TemporaryFolder folder;
  TinyTraining training;
  AuditSettings settings;
};

void check_found(const Flip& flip, std::int64_t step, BufferId buffer) {
  const AuditedRun run(flip);
  const AuditResult result = run.audited();
  CAPTURE(name(flip.buffer));
  CAPTURE(name(flip.phase));
  REQUIRE(result.finding);
  CHECK(result.finding->step == step);
  CHECK(result.finding->buffer == name(buffer));
  CHECK(result.finding->bucket >= 0);
  CHECK_FALSE(result.finding->loaded);
  // For every implementation, and from every checkpoint.
  AuditSettings again = run.settings;
  again.by_reference = true;
  again.first = step;
  again.last = step;
  const AuditResult by_reference = audit(again);
  REQUIRE(by_reference.finding);
  CHECK(by_reference.finding->bucket == result.finding->bucket);
  CHECK(by_reference.finding->buffer == result.finding->buffer);
}

TEST_CASE("a correct run is as logged, by production and by the reference") {
  AuditedRun run({});
  AuditResult result = run.audited();
  CHECK_FALSE(result.finding);
  CHECK(result.steps == 12);
  run.settings.first = 7;
  run.settings.last = 9;
  run.settings.world = parse_world("threads:2");
  run.settings.by_reference = true;
  result = run.audited();
  CHECK_FALSE(result.finding);
  CHECK(result.from == 5);
  CHECK(result.steps == 3);
}

TEST_CASE("a flipped bit is found at its step and buffer") {
  check_found({7, Phase::reduce, BufferId::grad_sum, 1}, 7, BufferId::grad_sum);
  check_found({7, Phase::update, BufferId::exp_avg, 2}, 7, BufferId::exp_avg);
  check_found({7, Phase::update, BufferId::exp_avg_sq, 0}, 7, BufferId::exp_avg_sq);
  check_found({7, Phase::update, BufferId::master, 2}, 7, BufferId::master);
  check_found({7, Phase::cast, BufferId::param_shard, 0, 7}, 7, BufferId::param_shard);
}

TEST_CASE("a bit that flips between two steps is found in the next one") {
  check_found({7, Phase::gather, BufferId::param_full, 1, 14}, 8, BufferId::grad_sum);
}

TEST_CASE("the bucket and its owners are those of the bit") {
  const AuditedRun run(Flip{7, Phase::update, BufferId::master, 2});
  const AuditResult result = run.audited();
  REQUIRE(result.finding);
  const AuditFinding& finding = *result.finding;
  CHECK(finding.elements.numel() <= 1024);
  CHECK(finding.ranks.find("2") != std::string::npos);
  CHECK(to_text(result, run.settings).find(finding.tensors) != std::string::npos);
}

TEST_CASE("a checkpoint with a wrong state is found when the audit starts from it") {
  AuditedRun run({});
  AuditSettings settings = run.settings;
  settings.first = 6;
  settings.last = 7;
  // Its log has another sum for step 5, so the saved state is not the logged one.
  ReadLog log = read_log(settings.log);
  log.steps.at(5).record.sums.at("master")[3] ^= 1;
  const std::string other = run.folder.file("other.jsonl");
  {
    RunLog writer(other, log.starts.front());
    for (const auto& [step, logged] : log.steps) writer.add(logged.record);
  }
  settings.log = other;
  const AuditResult result = audit(settings);
  REQUIRE(result.finding);
  CHECK(result.finding->loaded);
  CHECK(result.finding->step == 5);
  CHECK(result.finding->bucket == 3);
}

TEST_CASE("slow: no difference is reported in 1,000 correct steps") {
  const AuditedRun run({}, 1000, 4, 1);
  const AuditResult result = run.audited();
  CHECK_FALSE(result.finding);
  CHECK(result.steps == 1000);
  MESSAGE("digests: " << result.buckets);
}

}  // namespace
