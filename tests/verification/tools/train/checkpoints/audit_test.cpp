// One flipped bit in the memory of one rank, once: the audit names its step, its buffer and its
// bucket, and reports no difference in a correct run.

#include <doctest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <random>

#include "common/base/error.hpp"
#include "common/io/checkpoint/checkpoint_manifest.hpp"
#include "common/io/checkpoint/checkpoint_names.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/verification/cli/cli_support.hpp"
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
  /// in_checkpoint: only while the checkpoint of the step is saved.
  FlippingOptimizer(const OptimizerSetup& setup, const Flip& flip, bool in_checkpoint)
      : WrappedOptimizer(host_optimizer()(setup), *setup.layout),
        layout_(*setup.layout),
        flip_(flip),
        in_checkpoint_(in_checkpoint),
        rank_(setup.comm->rank()) {}

  void run_phase(Phase phase, GradSource& leaves) override {
    if (saved_) flip(inner_->storage());  // back
    saved_ = false;
    WrappedOptimizer::run_phase(phase, leaves);
    step_ += phase == Phase::prepare ? 1 : 0;
    if (in_checkpoint_ || step_ != flip_.step || phase != flip_.phase || rank_ != flip_.rank)
      return;
    flip(exposed(phase));
    overwritten(phase);
  }

  /// A checkpoint is made of it.
  std::vector<ExposedBuffer> storage() override {
    std::vector<ExposedBuffer> buffers = WrappedOptimizer::storage();
    if (in_checkpoint_ && step_ == flip_.step && rank_ == flip_.rank && !saved_) {
      flip(buffers);
      saved_ = true;
    }
    return buffers;
  }

 private:
  void flip(const std::vector<ExposedBuffer>& buffers) const {
    for (const ExposedBuffer& buffer : buffers) {
      if (buffer.id != flip_.buffer) continue;
      const std::vector<Piece> pieces = layout_.pieces(buffer.ranges);
      const Piece& piece = pieces[pieces.size() / 2];
      auto* const bytes = static_cast<unsigned char*>(buffer.view.data) +
                          (piece.local_begin + piece.numel / 2) * num_bytes(buffer.view.dtype);
      bytes[flip_.bit / 8] ^= static_cast<unsigned char>(1U << (flip_.bit % 8));
    }
  }

  const FlatLayout& layout_;
  const Flip flip_;
  const bool in_checkpoint_;
  const int rank_;
  std::int64_t step_ = 0;
  bool saved_ = false;
};

/// A run with its log and checkpoints in a folder, audited.
struct AuditedRun {
  explicit AuditedRun(const std::optional<Flip>& flip, std::int64_t steps = 12, int world = 3,
                      int stage = 2, bool in_checkpoint = false, std::int64_t save_every = 5,
                      DType dtype = DType::bf16)
      : training(dtype, "adamw", [](RunConfig& config) { config.steps = 1'000'000; }) {
    training.config.steps = steps;
    const CaseSpec spec = training.spec(world, stage);
    const Experiment experiment("byte_gpt_tiny", training.config, dtype, load_text(training.config),
                                "adamw");
    JobSettings job{experiment, spec, training_identity(experiment, spec, ""),
                    [&](const OptimizerSetup& setup) -> std::unique_ptr<DistributedOptimizer> {
                      if (!flip) return host_optimizer()(setup);
                      return std::make_unique<FlippingOptimizer>(setup, *flip, in_checkpoint);
                    }};
    job.folder = folder.file("run");
    job.save_every = save_every;
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

/// The log after an edit, with a new chain.
std::string edited(const AuditedRun& run, const std::function<void(ReadLog&)>& edit) {
  ReadLog log = read_log(run.settings.log);
  edit(log);
  const std::string file = run.folder.file("edited.jsonl");
  std::filesystem::remove(file);
  {
    RunLog writer(file, log.starts.front());
    for (const auto& [step, logged] : log.steps) writer.add(logged.record);
  }
  return read_file(file);
}

/// The audit's refusal of a run with another log: "" if there is none.
std::string damage_in(const AuditedRun& run, const std::string& log, AuditSettings settings) {
  settings.log = run.folder.file("other.jsonl");
  std::ofstream(settings.log, std::ios::binary) << log;
  try {
    audit(settings);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::damaged);
    return error.what();
  }
  return "";
}
std::string damage_in(const AuditedRun& run, const std::string& log) {
  return damage_in(run, log, run.settings);
}

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
  CHECK(result.checkpoints == 3);
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

TEST_CASE("audit: a checkpoint with a flipped bit is found wherever the audit begins") {
  const AuditedRun run(Flip{5, Phase::update, BufferId::master, 1}, 12, 3, 2, true);
  // From the beginning, before it, at it, and from it.
  for (const std::pair<std::int64_t, std::int64_t> steps :
       {std::pair{0, 0}, {3, 5}, {5, 5}, {6, 7}}) {
    AuditSettings settings = run.settings;
    settings.first = steps.first;
    settings.last = steps.second;
    for (const bool by_reference : {false, true}) {
      settings.by_reference = by_reference;
      CAPTURE(settings.first);
      const AuditResult result = audit(settings);
      REQUIRE(result.finding);
      CHECK(result.finding->loaded);
      CHECK(result.finding->step == 5);
      CHECK(result.finding->buffer == "master");
      CHECK(result.finding->ranks.find("1") != std::string::npos);
    }
  }
  AuditSettings settings = run.settings;  // a range without it
  settings.first = 11;
  const AuditResult result = audit(settings);
  CHECK_FALSE(result.finding);
  CHECK(result.checkpoints == 2);
}

TEST_CASE("audit: a checkpoint with another counter is found") {
  for (const std::int64_t step : {5, 12}) {
    const AuditedRun run({});
    const std::string path =
        run.settings.folder + "/" + checkpoint_name(step) + "/" + manifest_name;
    CheckpointManifest manifest = parse_manifest(read_file(path), path);
    manifest.about["state"]["growth_tracker"] = 3;
    std::ofstream(path, std::ios::binary) << manifest_text(manifest);
    const AuditResult result = run.audited();
    REQUIRE(result.finding);
    CHECK(result.finding->loaded);
    CHECK(result.finding->step == step);
    CHECK(result.finding->buffer == "growth_tracker");
    CHECK(result.finding->made == "3");
  }
}

TEST_CASE("audit: the state after a skipped step is compared") {
  const AuditedRun run(Flip{3, Phase::update, BufferId::master, 0}, 4, 2, 1, true, 1, DType::fp16);
  REQUIRE(read_log(run.settings.log).steps.at(3).record.skipped);
  for (const std::int64_t first : {1, 3, 4}) {
    CAPTURE(first);
    AuditSettings settings = run.settings;
    settings.first = first;
    const AuditResult result = audit(settings);
    REQUIRE(result.finding);
    CHECK(result.finding->loaded);
    CHECK(result.finding->step == 3);
    CHECK(result.finding->buffer == "master");
  }
}

TEST_CASE("audit: every one of 200 flipped bits of a log is refused") {
  const AuditedRun run({});
  const std::string whole = read_file(run.settings.log);
  std::mt19937_64 random(2026);
  int refused = 0;
  for (int i = 0; i < 200; ++i) {
    std::string text = whole;
    const auto bit = static_cast<std::size_t>(random() % (whole.size() * 8));
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << (bit % 8)));
    refused += damage_in(run, text).empty() ? 0 : 1;
  }
  CHECK(refused == 200);
  // And those of the last newline.
  for (int bit = 0; bit < 8; ++bit) {
    std::string text = whole;
    text.back() = static_cast<char>(text.back() ^ (1 << bit));
    CHECK(damage_in(run, text).find("another byte is in place of its newline") !=
          std::string::npos);
  }
}

TEST_CASE("audit: a log without some of its lines is refused") {
  const AuditedRun run({});
  const std::vector<std::string> lines = lines_of(read_file(run.settings.log));
  REQUIRE(lines.size() == 13);
  for (std::size_t left = 1; left < lines.size(); ++left) {
    CAPTURE(left);
    std::string text;
    for (std::size_t i = 0; i < left; ++i) text += lines[i] + "\n";
    CHECK(damage_in(run, text).find("ends with step " + std::to_string(left - 1) + ", before ") !=
          std::string::npos);
    CHECK(damage_in(run, text + lines[left].substr(0, 20)).find(", before ") != std::string::npos);
    CHECK(damage_in(run, text + lines[left]).find(", before ") != std::string::npos);
  }
  for (std::size_t lost = 0; lost + 1 < lines.size(); ++lost) {
    CAPTURE(lost);
    std::string text;
    for (std::size_t i = 0; i < lines.size(); ++i) text += i == lost ? "" : lines[i] + "\n";
    CHECK(damage_in(run, text).find("is not as it was written") != std::string::npos);
  }
  CHECK(damage_in(run, lines[0] + "\n\n").find("does not end with a hash") != std::string::npos);
  CHECK(damage_in(run, "").find("ends with step 0, before ") != std::string::npos);
}

TEST_CASE("audit: a log with a new chain is not that of the checkpoints") {
  const AuditedRun run({});
  const std::string text = edited(run, [](ReadLog& log) { log.steps.at(3).record.seconds = 1; });
  CHECK(damage_in(run, text).find("has another line of step 5 than ") != std::string::npos);
  AuditSettings settings = run.settings;  // the newest checkpoint counts in every range
  settings.last = 2;
  CHECK(damage_in(run, text, settings).find("has another line of step 12 than ") !=
        std::string::npos);
}

TEST_CASE("audit: digests that the step has are required of the log, whatever the log says") {
  const AuditedRun run({});
  AuditSettings settings = run.settings;
  settings.folder = run.folder.file("none");  // without checkpoints only the digests are left
  std::filesystem::create_directory(settings.folder);
  using Edit = std::function<void(std::map<std::string, std::vector<std::uint64_t>>&)>;
  const std::pair<const char*, Edit> rows[] = {
      {"has no digests of grad_sum in step 4", [](auto& sums) { sums.clear(); }},
      {"has no digests of master in step 4", [](auto& sums) { sums.erase("master"); }},
      {"has no digests of exp_avg in step 4",
       [](auto& sums) {
         sums["exp_avf"] = sums.at("exp_avg");
         sums.erase("exp_avg");
       }},
      {"has 0 digests of param_shard in step 4",
       [](auto& sums) { sums.at("param_shard").clear(); }},
      {"digests of exp_avg_sq in step 4", [](auto& sums) { sums.at("exp_avg_sq").pop_back(); }},
      {"has digests of 6 buffers in step 4", [](auto& sums) { sums["more"] = {1}; }},
  };
  for (const auto& row : rows) {
    CAPTURE(std::string(row.first));
    const std::string text =
        edited(run, [&](ReadLog& log) { row.second(log.steps.at(4).record.sums); });
    CHECK(damage_in(run, text, settings).find(row.first) != std::string::npos);
  }
}

TEST_CASE("audit: a log without steps has nothing to compare") {
  const AuditedRun run({});
  AuditSettings settings = run.settings;
  settings.folder = run.folder.file("none");
  settings.log = run.folder.file("empty.jsonl");
  std::filesystem::create_directory(settings.folder);
  { const RunLog log(settings.log, read_log(run.settings.log).starts.front()); }
  for (const std::int64_t step : {0, 1}) {
    settings.first = settings.last = step;
    const AuditResult result = audit(settings);
    CHECK(result.buckets == 0);
    CHECK_FALSE(result.finding);
  }
}

TEST_CASE("slow: no difference is reported in 1,000 correct steps") {
  const AuditedRun run({}, 1000, 4, 1);
  const AuditResult result = run.audited();
  CHECK_FALSE(result.finding);
  CHECK(result.steps == 1000);
  MESSAGE("digests: " << result.buckets);
}

}  // namespace
