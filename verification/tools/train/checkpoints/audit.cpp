#include "verification/tools/train/checkpoints/audit.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

#include "common/base/error.hpp"
#include "common/base/parallel_for.hpp"
#include "common/io/checkpoint/checkpoint_names.hpp"
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

  /// State of a checkpoint. recomputed: the state after its step, from an earlier beginning; without
  /// it the state is compared with the log, if that has the step.
  void loaded(const StepRecord& saved, const std::optional<StepRecord>& recomputed) {
    const std::optional<StepRecord> expected = recomputed ? recomputed : logged_state(saved.step);
    if (!expected) return;
    AuditFinding finding;
    finding.step = saved.step;
    finding.loaded = true;
    compare_sums(*expected, saved, finding);
    compare(finding, "applied_steps", std::to_string(expected->applied_steps),
            std::to_string(saved.applied_steps));
    if (recomputed) {
      for (const Json::Member& counter : recomputed->counters.members())
        compare(finding, counter.name, counter.value.dump(),
                saved.counters.at(counter.name).dump());
    }
    ++result_.checkpoints;
    report(std::move(finding));
  }

  void step(const StepRecord& made) {
    const auto found = log_.steps.find(made.step);
    if (made.step < result_.first || found == log_.steps.end()) return;
    const StepRecord& logged = found->second.record;
    AuditFinding finding;
    finding.step = made.step;
    compare(finding, "loss_scale", std::to_string(logged.log2_loss_scale),
            std::to_string(made.log2_loss_scale));
    compare_sums(logged, made, finding);
    compare(finding, "skipped", logged.skipped ? "yes" : "no", made.skipped ? "yes" : "no");
    compare(finding, "grad_norm", shown(logged.grad_norm), shown(made.grad_norm));
    compare(finding, "applied_steps", std::to_string(logged.applied_steps),
            std::to_string(made.applied_steps));
    if (finding.buffer.empty()) {
      // A skipped step updates nothing; which buffers a step has does not depend on the log.
      ZP_CHECK(logged.sums.size() == made.sums.size(), ErrorCode::damaged,
               settings_.log + " has digests of " + std::to_string(logged.sums.size()) +
                   " buffers in step " + std::to_string(made.step) + ", and the step has " +
                   std::to_string(made.sums.size()),
               "the line was changed", "restore the log");
    }
    ++result_.steps;
    report(std::move(finding));
  }

 private:
  /// The first difference is the finding.
  static void compare(AuditFinding& finding, const std::string& what, const std::string& logged,
                      const std::string& made) {
    if (logged == made || !finding.buffer.empty()) return;
    finding.buffer = what;
    finding.logged = logged;
    finding.made = made;
  }

  void report(AuditFinding finding) {
    if (finding.buffer.empty() || result_.finding) return;
    if (finding.bucket >= 0) name_place(finding, log_.starts[log_.steps.at(finding.step).start]);
    result_.finding = std::move(finding);
  }

  /// State after a step by the log: the digests of the last step that was not skipped.
  std::optional<StepRecord> logged_state(std::int64_t step) const {
    const auto last = log_.steps.find(step);
    for (auto found = last; found != log_.steps.end(); found = log_.steps.find(found->first - 1)) {
      if (found->second.record.skipped) continue;
      StepRecord state = found->second.record;
      state.applied_steps = last->second.record.applied_steps;
      return state;
    }
    return std::nullopt;
  }

  /// Every buffer of `made`, in every bucket.
  void compare_sums(const StepRecord& logged, const StepRecord& made, AuditFinding& finding) {
    for (const BufferId id : flow()) {
      const std::string buffer(name(id));
      const auto a = logged.sums.find(buffer), b = made.sums.find(buffer);
      if (b == made.sums.end() || !finding.buffer.empty()) continue;
      if (logged.skipped != made.skipped && a == logged.sums.end()) continue;
      ZP_CHECK(a != logged.sums.end(), ErrorCode::damaged,
               settings_.log + " has no digests of " + buffer + " in step " +
                   std::to_string(logged.step),
               "the step has them, so the line was changed", "restore the log");
      ZP_CHECK(a->second.size() == b->second.size(), ErrorCode::damaged,
               settings_.log + " has " + std::to_string(a->second.size()) + " digests of " +
                   buffer + " in step " + std::to_string(logged.step) + " for " +
                   std::to_string(b->second.size()) + " buckets",
               "it is the log of another model, or was changed",
               "name the log of these checkpoints");
      result_.buckets += static_cast<std::int64_t>(b->second.size());
      for (std::size_t i = 0; i < a->second.size(); ++i) {
        if (a->second[i] == b->second[i]) continue;
        finding.buffer = buffer;
        finding.bucket = static_cast<std::int64_t>(i);
        finding.logged = fmt::format("{:016x}", a->second[i]);
        finding.made = fmt::format("{:016x}", b->second[i]);
        break;
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

/// The log has the steps up to the newest checkpoint.
void require_end(const ReadLog& log, const std::vector<std::int64_t>& saved,
                 const AuditSettings& settings) {
  std::int64_t last = log.steps.empty() ? 0 : log.steps.rbegin()->first;
  for (const RunStart& start : log.starts) last = std::max(last, start.from);
  ZP_CHECK(saved.empty() || saved.back() <= last, ErrorCode::damaged,
           settings.log + " ends with step " + std::to_string(last) + ", before " +
               settings.folder + "/" + checkpoint_name(saved.back()),
           "its last lines are missing, or it is the log of another run",
           "restore it, or name the right one with --log");
}

/// A checkpoint has the hash of its step's line. The log of another run may begin after it.
void require_line(const ReadLog& log, const CheckpointReader& checkpoint,
                  const AuditSettings& settings) {
  const CheckpointManifest& manifest = checkpoint.manifest();
  const auto found = log.steps.find(manifest.step);
  if (found == log.steps.end()) return;
  const bool there =
      manifest.about.contains("log") && manifest.about.at("log").kind() == Json::Kind::text;
  ZP_CHECK(there, ErrorCode::damaged,
           checkpoint.label() + " has no hash of its step's line in the log",
           "an earlier version wrote it, or a run without a log",
           "audit a folder that zeroproof train wrote");
  const std::vector<std::string>& hashes = found->second.hashes;
  const auto hash = manifest.about.at("log").get<std::string>();
  ZP_CHECK(std::find(hashes.begin(), hashes.end(), hash) != hashes.end(), ErrorCode::damaged,
           settings.log + " has another line of step " + std::to_string(manifest.step) + " than " +
               checkpoint.label(),
           "lines were changed after it was saved, or it is the log of another run",
           "restore it, or name the right one with --log");
}

}  // namespace

AuditResult audit(const AuditSettings& settings) {
  // Listed before the log is read: a run in progress saves a checkpoint after its step's line.
  const CheckpointRoot root(settings.folder);
  const std::vector<std::int64_t> saved = root.steps();
  const ReadLog log = read_log(settings.log);
  require_end(log, saved, settings);
  AuditResult result;
  if (log.steps.empty()) return result;
  result.first = settings.first > 0 ? settings.first : log.steps.begin()->first;
  result.last = settings.last > 0 ? settings.last : log.steps.rbegin()->first;
  for (std::int64_t step = result.first; step <= result.last; ++step) {
    ZP_CHECK(log.steps.count(step) > 0, ErrorCode::config,
             settings.log + " has no step " + std::to_string(step) + ", but " +
                 std::to_string(log.steps.begin()->first) + " to " +
                 std::to_string(log.steps.rbegin()->first),
             "there is nothing to compare with", "choose steps that it has with --steps");
  }
  // The recomputation begins at each of them again.
  std::vector<std::optional<std::int64_t>> begins = {std::nullopt};
  for (const std::int64_t step : saved) {
    if (step < result.first) begins.front() = step;
    if (step >= result.first && step <= result.last) begins.emplace_back(step);
  }
  for (const std::optional<std::int64_t>& step : begins) {
    if (step) require_line(log, CheckpointReader(root, *step), settings);
  }
  if (!saved.empty()) require_line(log, CheckpointReader(root, saved.back()), settings);
  result.from = begins.front().value_or(0);
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
  Auditor auditor(settings, log, result, training);
  std::optional<StepRecord> state;  // recomputed, after the last step of the previous part
  std::int64_t step = 0, last = 0;
  job.on_loaded = [&](const StepRecord& saved_state) {
    if (job.first_checkpoint) auditor.loaded(saved_state, state);
  };
  job.on_step = [&](const StepRecord& made) {
    step = made.step;
    auditor.step(made);
    if (!settings.progress) return;
    settings.progress(
        static_cast<double>(step - result.from) / static_cast<double>(result.last - result.from),
        "step " + std::to_string(step));
  };
  job.stop = [&] { return result.finding.has_value() || step >= last; };
  const auto world = make_local_world(spec.world, training.experiment->config().comm_timeout_s);
  for (std::size_t i = 0; i < begins.size() && !result.finding; ++i) {
    last = i + 1 < begins.size() ? *begins[i + 1] : result.last;
    job.first_checkpoint = begins[i];
    job.folder = begins[i] ? settings.folder : "";
    state = run_training_job(job, *world).state;
  }
  return result;
}

std::string to_text(const AuditResult& result, const AuditSettings& settings) {
  const std::string who =
      (settings.by_reference ? "the reference" : "production") + std::string(" on ") +
      settings.world.id() + ", from " +
      (result.from > 0 ? "the checkpoint of step " + std::to_string(result.from) : "the beginning");
  if (!result.finding) {
    const std::string checkpoints =
        result.checkpoints == 0 ? ""
                                : fmt::format(", {} checkpoint{}", grouped(result.checkpoints),
                                              result.checkpoints == 1 ? "" : "s");
    return fmt::format("steps {} to {}, recomputed by {}: {} digests{}, all as logged\n",
                       result.first, result.last, who, grouped(result.buckets), checkpoints);
  }
  const AuditFinding& finding = *result.finding;
  std::string text = fmt::format("recomputed by {}\n", who);
  const bool first = finding.loaded && finding.step < result.first;  // not recomputed
  text += fmt::format("{} {}: {} differs from the log{}\n",
                      finding.loaded ? "checkpoint of step" : "step", finding.step, finding.buffer,
                      first            ? " (one of them is wrong)"
                      : finding.loaded ? " and the recomputed state"
                                       : "");
  if (finding.bucket >= 0) {
    text += fmt::format("  first in  bucket {}: elements {} to {}, {}\n", finding.bucket,
                        grouped(finding.elements.begin), grouped(finding.elements.end - 1),
                        finding.tensors);
    text += fmt::format("  owned by  {}\n", finding.ranks);
  }
  text += fmt::format("  logged    {}\n  {}     {}\n", finding.logged,
                      finding.loaded ? "saved" : "made ", finding.made);
  return text;
}

}  // namespace zeroproof::verification
