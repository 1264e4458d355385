#include "verification/tools/train/checkpoints/audit.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

#include "common/base/error.hpp"
#include "common/base/parallel_for.hpp"
#include "reference/distributed_optimizer.hpp"
#include "verification/cases/case_layout.hpp"
#include "verification/report/format.hpp"
#include "verification/report/report_style.hpp"
#include "verification/tools/train/checkpoints/opened_checkpoint.hpp"
#include "verification/tools/train/training_identity.hpp"
#include "verification/tools/train/training_job.hpp"
#include "verification/training/case_run.hpp"

namespace zeroproof::verification {
namespace {

/// In the order of a step's data flow.
std::vector<BufferId> flow() {
  std::vector<BufferId> ids = {BufferId::grad_sum};
  for (const StateSlot slot : all_state_slots) ids.push_back(buffer_of(slot));
  ids.insert(ids.end(), {BufferId::master, BufferId::param_shard});
  return ids;
}

std::string shown(double value) { return std::isnan(value) ? "none" : fmt::format("{}", value); }

class Auditor {
 public:
  Auditor(const AuditSettings& settings, const ReadLog& log, AuditResult& result,
          const SavedTraining& training)
      : settings_(settings), log_(log), result_(result), training_(training) {}

  /// The first state: gradients and norms are those of the step before, which was not recomputed.
  void loaded(const StepRecord& made) { look_at(made, true); }
  void step(const StepRecord& made) {
    if (made.step < result_.first) return;
    look_at(made, false);
    ++result_.steps;
  }

 private:
  void look_at(const StepRecord& made, bool loaded) {
    const auto found = log_.steps.find(made.step);
    if (found == log_.steps.end() || result_.finding) return;
    const StepRecord& logged = found->second.record;
    AuditFinding finding;
    finding.step = made.step;
    finding.loaded = loaded;
    const auto scalar = [&](const char* what, const std::string& a, const std::string& b) {
      if (a == b || !finding.buffer.empty()) return;
      finding.buffer = what;
      finding.logged = a;
      finding.made = b;
    };
    if (!loaded)
      scalar("loss_scale", std::to_string(logged.log2_loss_scale),
             std::to_string(made.log2_loss_scale));
    if (finding.buffer.empty()) look_at_sums(logged, made, finding);
    if (!loaded) scalar("skipped", logged.skipped ? "yes" : "no", made.skipped ? "yes" : "no");
    if (!loaded) scalar("grad_norm", shown(logged.grad_norm), shown(made.grad_norm));
    scalar("applied_steps", std::to_string(logged.applied_steps),
           std::to_string(made.applied_steps));
    if (finding.buffer.empty()) return;
    if (finding.bucket >= 0) name_place(finding, log_.starts[found->second.start]);
    result_.finding = finding;
  }

  void look_at_sums(const StepRecord& logged, const StepRecord& made, AuditFinding& finding) {
    for (const BufferId id : flow()) {
      const std::string buffer(name(id));
      const auto a = logged.sums.find(buffer), b = made.sums.find(buffer);
      if (a == logged.sums.end() || b == made.sums.end())
        continue;  // a skipped step updates nothing
      result_.buckets += static_cast<std::int64_t>(b->second.size());
      ZP_CHECK(a->second.size() == b->second.size(), ErrorCode::damaged,
               settings_.log + " has " + std::to_string(a->second.size()) + " digests of " +
                   buffer + " in step " + std::to_string(made.step) + " for " +
                   std::to_string(b->second.size()) + " buckets",
               "it is the log of another model", "name the log of these checkpoints");
      for (std::size_t i = 0; i < a->second.size(); ++i) {
        if (a->second[i] == b->second[i]) continue;
        finding.buffer = buffer;
        finding.bucket = static_cast<std::int64_t>(i);
        finding.logged = fmt::format("{:016x}", a->second[i]);
        finding.made = fmt::format("{:016x}", b->second[i]);
        return;
      }
    }
  }

  void name_place(AuditFinding& finding, const RunStart& start) const {
    const Experiment& experiment = *training_.experiment;
    const FlatLayout& whole = experiment.layout();
    finding.elements = {finding.bucket * start.bucket_numel,
                        std::min((finding.bucket + 1) * start.bucket_numel, whole.padded_numel())};
    const auto inside = whole.pieces({finding.elements});
    if (!inside.empty()) {
      const auto name_of = [&](const Piece& piece) { return whole.tensors()[piece.tensor].name; };
      finding.tensors = name_of(inside.front());
      if (inside.size() > 1) finding.tensors += " to " + name_of(inside.back());
    }
    const SavedTraining run = saved_training(start.training, finding.step, settings_.log);
    const CaseLayout layout(*run.experiment, run.spec, run.spec.world.size);
    std::set<int> ranks;
    for (int rank = 0; rank < run.spec.world.size; ++rank) {
      const RankCoords coords = layout.place(rank);
      const CaseLayout::Local& local = layout.local(coords.tp_rank);
      for (const OwnPiece& own :
           own_pieces({local.layout, local.shards.shard(coords.shard_rank), local.placement,
                       coords.instance == 0, coords.tp_rank == 0},
                      whole)) {
        const std::int64_t begin = whole.tensors()[own.piece.tensor].begin;
        const std::int64_t first = begin + own.piece.element(0);
        const std::int64_t last = begin + own.piece.element(own.piece.numel - 1);
        if (first < finding.elements.end && last >= finding.elements.begin) ranks.insert(rank);
      }
    }
    for (const int rank : ranks)
      finding.ranks += (finding.ranks.empty() ? "" : ", ") + std::to_string(rank);
    finding.ranks =
        (ranks.size() == 1 ? "rank " : "ranks ") + finding.ranks + " of " + run.spec.world.id();
  }

  const AuditSettings& settings_;
  const ReadLog& log_;
  AuditResult& result_;
  const SavedTraining& training_;
};

/// The newest checkpoint at or before `step` steps; nothing without one.
std::optional<std::int64_t> checkpoint_before(const std::string& folder, std::int64_t step) {
  std::optional<std::int64_t> newest;
  for (const std::int64_t there : CheckpointRoot(folder).steps()) {
    if (there <= step) newest = there;
  }
  return newest;
}

}  // namespace

AuditResult audit(const AuditSettings& settings) {
  const ReadLog log = read_log(settings.log);
  ZP_CHECK(!log.steps.empty(), ErrorCode::config, settings.log + " has no steps",
           "there is nothing to recompute", "train some steps first");
  AuditResult result;
  result.first = settings.first > 0 ? settings.first : log.steps.begin()->first;
  result.last = settings.last > 0 ? settings.last : log.steps.rbegin()->first;
  for (std::int64_t step = result.first; step <= result.last; ++step) {
    ZP_CHECK(log.steps.count(step) > 0, ErrorCode::config,
             settings.log + " has no step " + std::to_string(step) + ", but " +
                 std::to_string(log.steps.begin()->first) + " to " +
                 std::to_string(log.steps.rbegin()->first),
             "there is nothing to compare with", "choose steps that it has with --steps");
  }
  const std::optional<std::int64_t> before = checkpoint_before(settings.folder, result.first - 1);
  result.from = before.value_or(0);
  const RunStart& start = log.starts[log.steps.at(result.last).start];
  const SavedTraining training = saved_training(start.training, result.last, settings.log);
  CaseSpec spec = training.spec;
  spec.implementation = Implementation::host;
  spec.stage = 0;
  spec.world = settings.world;
  const GradSum sum = spec.place.grad_sum;
  const LayoutKind layout = spec.place.layout;
  spec.place = {};
  spec.place.grad_sum = sum;
  spec.place.layout = layout;
  JobSettings job{*training.experiment, spec, start.training,
                  settings.by_reference
                      ? RankComparison::MakeOptimizer(reference::make_distributed_optimizer)
                      : candidate_factory(spec.implementation, "")};
  job.in_parts = !settings.by_reference;
  job.omp_threads = std::max(1, available_cores() / spec.world.size);
  job.folder = settings.folder;
  job.first_checkpoint = before;
  Auditor auditor(settings, log, result, training);
  if (before) job.on_loaded = [&](const StepRecord& made) { auditor.loaded(made); };
  job.on_step = [&](const StepRecord& made) {
    auditor.step(made);
    if (!settings.progress) return;
    settings.progress(static_cast<double>(made.step - result.from) /
                          static_cast<double>(result.last - result.from),
                      "step " + std::to_string(made.step));
  };
  job.stop = [&] { return result.finding.has_value(); };
  const auto world = make_local_world(spec.world, training.experiment->config().comm_timeout_s);
  if (!before) job.folder.clear();
  run_training_job(job, *world);
  return result;
}

std::string to_text(const AuditResult& result, const AuditSettings& settings) {
  const std::string who =
      (settings.by_reference ? "the reference" : "production") + std::string(" on ") +
      settings.world.id() + ", from " +
      (result.from > 0 ? "the checkpoint of step " + std::to_string(result.from) : "the beginning");
  if (!result.finding) {
    return fmt::format("steps {} to {}, recomputed by {}: {} digests, all as logged\n",
                       result.first, result.last, who, grouped(result.buckets));
  }
  const AuditFinding& finding = *result.finding;
  std::string text = fmt::format("recomputed by {}\n", who);
  text += fmt::format("{} {}: {} differs from the log{}\n",
                      finding.loaded ? "checkpoint of step" : "step", finding.step, finding.buffer,
                      finding.loaded ? " (one of them is wrong)" : "");
  if (finding.bucket >= 0) {
    text += fmt::format("  first in  bucket {}: elements {} to {}, {}\n", finding.bucket,
                        grouped(finding.elements.begin), grouped(finding.elements.end - 1),
                        finding.tensors);
    text += fmt::format("  owned by  {}\n", finding.ranks);
  }
  text += fmt::format("  logged    {}\n  made      {}\n", finding.logged, finding.made);
  return text;
}

}  // namespace zeroproof::verification
