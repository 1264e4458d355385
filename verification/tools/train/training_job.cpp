#include "verification/tools/train/training_job.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "common/base/error.hpp"
#include "common/checkpoint/checkpoint_state.hpp"
#include "common/checkpoint/element_sums.hpp"
#include "common/checkpoint/rank_report.hpp"
#include "common/io/checkpoint/checkpoint_names.hpp"
#include "common/step/state_buffers.hpp"
#include "verification/cases/stopwatch.hpp"
#include "verification/cli/program/contract_version.hpp"
#include "verification/cli/program/free_space.hpp"
#include "verification/compare/judge/training_rank.hpp"
#include "verification/tools/train/first_state.hpp"
#include "verification/tools/train/job_dump.hpp"
#include "verification/tools/train/loaded_scales.hpp"
#include "verification/tools/train/phase_times.hpp"
#include "verification/tools/train/training_identity.hpp"
#include "verification/tools/train/whole_state.hpp"

namespace zeroproof::verification {
namespace {

/// Buffers with sums in the log, in the order of a step's data flow.
bool is_summed(Phase phase, BufferId id) {
  if (id == BufferId::grad_sum) return phase == Phase::reduce;
  if (id == BufferId::param_shard) return phase == Phase::cast;
  return is_state(id) && phase == Phase::update;
}

/// One rank of the job.
class JobRank {
 public:
  JobRank(const JobSettings& settings, const CaseLayout& layout, GradCache& leaves,
          Communicator& for_optimizer, Communicator& harness, World& world)
      : settings_(settings),
        world_(world),
        experiment_(settings.experiment),
        leaves_(leaves),
        harness_(harness),
        rank_(experiment_, leaves, settings.spec, layout, {for_optimizer, harness},
              [&](OptimizerSetup setup) {
                setup.exec.num_threads = settings.omp_threads;
                return settings.make_optimizer(setup);
              }),
        sums_(experiment_.layout(), own_pieces(rank_.setup(), experiment_.layout()),
              settings.omp_threads),
        // A fused step has no observable phases and leaves G unchanged: G is read after it.
        in_phases_(settings.spec.implementation.runs_in(Mode::lockstep) &&
                   !settings.spec.implementation.fused),
        times_([this](Phase phase, const ExposedBuffer& buffer) { look(phase, buffer); }) {}

  /// Complete on rank 0.
  JobResult run() {
    if (!settings_.folder.empty() && !settings_.first_checkpoint) {
      together(harness_, [&] {
        if (root()) require_space();
      });
      saver_.emplace(settings_.folder, harness_, settings_.keep, settings_.mode);
    }
    begin();
    const std::int64_t last = experiment_.config().steps;
    for (std::int64_t step = result_.from + 1; step <= last && !result_.stopped; ++step) {
      make_step(step);
      result_.last = step;
      result_.stopped = step < last && asked_to_stop();
      if (!saver_) continue;
      const Stopwatch watch;
      saver_->advance();
      const bool due = settings_.save_every > 0 && step % settings_.save_every == 0;
      if (due || step == last || result_.stopped) save(step);
      result_.saving_s += watch.seconds();
    }
    if (saver_) {
      const Stopwatch watch;
      saver_->finish();
      result_.saving_s += watch.seconds();
    }
    result_.state = state_after(result_.last);
    if (!settings_.dump.empty()) write_job_dump(settings_, rank_, result_.last, harness_);
    result_.phases_s = times_.seconds();
    result_.memory = rank_.optimizer().memory();
    return std::move(result_);
  }

 private:
  bool root() const { return harness_.rank() == 0; }

  /// Checks before training starts that another checkpoint fits on the disk.
  void require_space() const {
    const std::uint64_t buffers = kept_slots(experiment_.config().optimizer).size() + 1;
    require_free_space(settings_.folder,
                       static_cast<std::uint64_t>(experiment_.layout().numel()) * 4 * buffers);
  }

  /// Loads the first state, and opens the log.
  void begin() {
    std::unique_ptr<CheckpointReader> from;
    if (settings_.resume || settings_.first_checkpoint) from = open_first();
    if (from) {
      require_same_training(from->manifest().about, settings_.training, from->label());
      ZP_CHECK(from->manifest().contract == std::to_string(contract_version), ErrorCode::config,
               from->label() + " has the bits of contract " + from->manifest().contract,
               "this program continues with those of contract " + std::to_string(contract_version),
               "continue with the version that wrote it");
      require_scales(*from, experiment_);
      load(*from);
      require_scales_of_masters(rank_, from->label(), harness_);
      result_.from = from->manifest().step;
      run_ = from->manifest().run;
    } else {
      rank_.load(Snapshot(experiment_.initial_state()));
      run_ = make_nonce() + make_nonce();
    }
    result_.last = result_.from;
    tell_loaded();
    together(harness_, [&] {
      if (!root()) return;
      if (!settings_.log.empty()) {
        log_ = std::make_unique<RunLog>(
            settings_.log, RunStart{settings_.training, run_, result_.from, sums_.bucket_numel()});
      }
      if (settings_.on_start) settings_.on_start(result_.from, from ? from->label() : "");
    });
  }

  void load(const CheckpointReader& from) {
    const CheckpointState state(from, rank_.setup(), experiment_.layout());
    if (settings_.in_parts) return rank_.load(state);
    rank_.load(whole_state(state, rank_.setup(), experiment_.layout()));
  }

  void tell_loaded() {
    if (!settings_.on_loaded) return;
    const StepRecord record = state_after(result_.from);
    if (root()) settings_.on_loaded(record);
  }

  /// Digests of the present state. Collective.
  StepRecord state_after(std::int64_t step) {
    StepRecord record;
    record.step = step;
    record.applied_steps = rank_.optimizer().applied_steps();
    record.log2_loss_scale = rank_.optimizer().loss_scaler().log2_scale;
    for (const Phase phase : {Phase::update, Phase::cast}) {
      for (const ExposedBuffer& buffer : rank_.optimizer().exposed(phase)) look(phase, buffer);
    }
    take_sums(record);
    // Only an audit compares them; reading the storage may copy a device's memory.
    if (settings_.on_loaded)
      record.counters =
          counters_json(rank_.optimizer(), rank_.setup(), rank_.optimizer().storage());
    return record;
  }

  void take_sums(StepRecord& record) {
    for (auto& [id, sums] : sums_.take(harness_))
      record.sums[std::string(name(id))] = std::move(sums);
  }

  /// The same one on every rank.
  std::unique_ptr<CheckpointReader> open_first() {
    std::unique_ptr<CheckpointReader> newest;
    std::uint64_t step = 0;  // and 1; 0 for none
    if (settings_.first_checkpoint) {
      step = static_cast<std::uint64_t>(*settings_.first_checkpoint) + 1;
    } else {
      together(harness_, [&] {
        if (!root()) return;
        newest = newest_checkpoint(settings_.folder, settings_.allow_fallback,
                                   [&](const std::string& line) {
                                     if (settings_.on_damage) settings_.on_damage(line);
                                   });
        if (newest) step = static_cast<std::uint64_t>(newest->manifest().step) + 1;
      });
      harness_.all_reduce({&step, 1}, IntegerReduce::max);
    }
    if (step == 0) return nullptr;
    together(harness_, [&] {
      if (!newest) {
        newest = std::make_unique<CheckpointReader>(CheckpointRoot(settings_.folder),
                                                    static_cast<std::int64_t>(step) - 1);
      }
    });
    return newest;
  }

  void look(Phase phase, const ExposedBuffer& buffer) {
    if (!is_summed(phase, buffer.id)) return;
    const Stopwatch watch;
    sums_.add(buffer);
    result_.sums_s += watch.seconds();
  }

  void make_step(std::int64_t step) {
    const Stopwatch watch;
    world_.set_place(harness_.rank(),
                     "step " + std::to_string(step) + " of " + settings_.spec.id());
    DistributedOptimizer& optimizer = rank_.optimizer();
    StepRecord record;
    record.step = step;
    record.log2_loss_scale = optimizer.loss_scaler().log2_scale;
    const TrainingRank::Outcome outcome =
        rank_.step(step, in_phases_ ? &times_ : nullptr, [&] { times_.begin(); });
    record.skipped = outcome.skipped;
    record.applied_steps = optimizer.applied_steps();
    result_.gradients_s += outcome.gradients_s;
    result_.optimizer_s += outcome.optimizer_s;
    if (!in_phases_) {
      for (const Phase phase : {Phase::reduce, Phase::update, Phase::cast}) {
        if (outcome.skipped && skipped_on_overflow(phase)) continue;
        for (const ExposedBuffer& buffer : optimizer.exposed(phase)) look(phase, buffer);
      }
    }
    record.grad_norm = std::numeric_limits<double>::quiet_NaN();
    if (!outcome.skipped) {
      for (const ExposedBuffer& buffer : optimizer.exposed(Phase::norm)) {
        if (buffer.id == BufferId::grad_norm)
          std::memcpy(&record.grad_norm, buffer.view.data, sizeof(double));
      }
    }
    record.loss = mean_loss(outcome.losses, experiment_.config().micro_batches, harness_);
    const Stopwatch summing;
    take_sums(record);
    result_.sums_s += summing.seconds();
    // Every rank has used its gradients, so all losses are reported.
    if (settings_.spec.world.has_processes() || root()) leaves_.forget();
    record.seconds = watch.seconds();
    together(harness_, [&] {
      if (!root()) return;
      if (log_) {
        const Stopwatch logging;
        log_->add(record);
        result_.sums_s += logging.seconds();
      }
      if (settings_.on_step) settings_.on_step(record);
    });
    if (root()) result_.steps.push_back(std::move(record));
  }

  bool asked_to_stop() {
    std::uint64_t stop = settings_.stop() ? 1 : 0;
    harness_.all_reduce({&stop, 1}, IntegerReduce::max);
    return stop != 0;
  }

  void save(std::int64_t step) {
    CheckpointContent content;
    content.contract = std::to_string(contract_version);
    content.run = run_;
    content.step = step;
    content.about = settings_.training;
    together(harness_, [&] {
      if (!log_) return;
      log_->sync();
      content.about["log"] = log_->hash();
    });
    saver_->save(rank_.optimizer(), rank_.setup(), experiment_.layout(), content);
    if (root() && settings_.on_news)
      settings_.on_news("saved: " + settings_.folder + "/" + checkpoint_name(step));
  }

  const JobSettings& settings_;
  World& world_;
  const Experiment& experiment_;
  GradCache& leaves_;
  Communicator& harness_;
  JobResult result_;
  TrainingRank rank_;
  ElementSums sums_;
  const bool in_phases_;
  PhaseTimes times_;
  std::string run_;
  std::unique_ptr<RunLog> log_;  // on rank 0
  std::optional<CheckpointSaver> saver_;
};

}  // namespace

JobResult run_training_job(const JobSettings& settings, World& world) {
  const CaseLayout layout(settings.experiment, settings.spec, world.size());
  GradCache leaves(settings.experiment);
  JobResult result;
  world.run([&](int rank, const RankComparison::Communicators& comms) {
    JobRank job(settings, layout, leaves, *comms.candidate, *comms.harness, world);
    JobResult mine = job.run();
    if (rank == 0) result = std::move(mine);
  });
  return result;
}

}  // namespace zeroproof::verification
