#include "verification/training/resume/resume_run.hpp"

#include <memory>
#include <vector>

#include "common/base/error.hpp"
#include "common/checkpoint/checkpoint_saver.hpp"
#include "common/checkpoint/checkpoint_state.hpp"
#include "common/io/checkpoint/checkpoint_names.hpp"
#include "verification/cases/obstacle.hpp"
#include "verification/cases/recipes.hpp"
#include "verification/cases/status_of.hpp"
#include "verification/cases/stopwatch.hpp"
#include "verification/cli/program/contract_version.hpp"
#include "verification/cli/program/exit_code.hpp"
#include "verification/cli/program/temporary_folder.hpp"
#include "verification/compare/judge/dense_baseline.hpp"
#include "verification/compare/judge/training_rank.hpp"
#include "verification/training/case_run.hpp"
#include "verification/training/ranks/world.hpp"
#include "verification/training/resume/resume_judge.hpp"

namespace zeroproof::verification {
namespace {

/// Production on the ranks of one half.
class Side {
 public:
  Side(const Experiment& experiment, GradCache& leaves, const CaseSpec& spec,
       const std::string& fault)
      : experiment_(experiment),
        spec_(spec),
        layout_(experiment, spec, spec.world.size),
        world_(make_local_world(spec.world, experiment.config().comm_timeout_s)),
        ranks_(static_cast<std::size_t>(spec.world.size)) {
    for (int rank = 0; rank < spec.world.size; ++rank)
      judges_.push_back(std::make_unique<ResumeJudge>(experiment, layout_, rank));
    world_->run([&](int rank, const RankComparison::Communicators& comms) {
      at(rank) = std::make_unique<TrainingRank>(
          experiment, leaves, spec_, layout_,
          TrainingRank::Communicators{*comms.candidate, *comms.harness},
          candidate_factory(spec_.implementation, fault, spec_.mode));
    });
  }

  void begin() {
    world_->run([&](int rank, const RankComparison::Communicators&) {
      at(rank)->load(Snapshot(experiment_.initial_state()));
    });
  }

  void load(const std::string& folder, std::int64_t step, const reference::DenseOptimizer& truth) {
    world_->run([&](int rank, const RankComparison::Communicators&) {
      const CheckpointReader reader(CheckpointRoot(folder), step);
      at(rank)->load(CheckpointState(reader, at(rank)->setup(), experiment_.layout()));
      judges_[rank]->loaded(step, truth, at(rank)->optimizer());
    });
  }

  void run_step(std::int64_t step, const reference::DenseOptimizer& truth) {
    world_->run([&](int rank, const RankComparison::Communicators&) {
      ResumeJudge& judge = *judges_[rank];
      judge.begin_step(step, truth);
      if (spec_.mode != Mode::whole) {
        at(rank)->step(step, &judge);
        return;
      }
      at(rank)->step(step);
      judge.stepped(at(rank)->optimizer());
    });
  }

  void save(const std::string& folder, std::int64_t step) {
    CheckpointContent content;
    content.contract = std::to_string(contract_version);
    content.run = make_nonce() + make_nonce();
    content.step = step;
    world_->run([&](int rank, const RankComparison::Communicators& comms) {
      CheckpointSaver saver(folder, *comms.harness, 0, SaveMode::synchronous);
      saver.save(at(rank)->optimizer(), at(rank)->setup(), experiment_.layout(), content);
    });
  }

  /// The first difference in the data flow over all ranks.
  std::optional<Divergence> first() const {
    std::optional<Divergence> first;
    for (const auto& rank : judges_) {
      const auto& found = rank->judge().first();
      if (found && (!first || earlier(*found, *first))) first = found;
    }
    return first;
  }

  void count_into(Result& result) const {
    for (const auto& rank : judges_) {
      result.compared += rank->judge().compared();
      result.differing += rank->judge().differing();
      result.ranks.push_back(rank->judge().results(static_cast<int>(result.ranks.size())));
    }
  }

 private:
  std::unique_ptr<TrainingRank>& at(int rank) { return ranks_[rank]; }

  const Experiment& experiment_;
  const CaseSpec spec_;
  const CaseLayout layout_;
  std::unique_ptr<World> world_;
  std::vector<std::unique_ptr<ResumeJudge>> judges_;
  std::vector<std::unique_ptr<TrainingRank>> ranks_;
};

/// Why a half cannot run here, or "".
std::string obstacle_of(const ResumeCaseSpec& spec) {
  const std::string first = obstacle(spec.half(spec.before), false);
  return first.empty() ? obstacle(spec.half(spec.after), false) : first;
}

/// What was judged: one implementation, or "host-to-device".
std::string side_of(const ResumeCaseSpec& spec) {
  const std::string_view first = name(spec.before.implementation),
                         second = name(spec.after.implementation);
  return std::string(first) + (first == second ? "" : "-to-" + std::string(second));
}

/// Both halves of a run.
class ResumedRun {
 public:
  ResumedRun(const ResumeCaseSpec& spec, const Experiment& experiment, GradCache& leaves,
             const std::string& fault)
      : spec_(spec),
        experiment_(experiment),
        leaves_(leaves),
        fault_(fault),
        truth_(experiment, leaves) {}

  /// Errors: those of the ranks; earlier differences are kept.
  void run() {
    const TemporaryFolder folder("a checkpoint is saved there and read again");
    side_ = std::make_unique<Side>(experiment_, leaves_, spec_.half(spec_.before), fault_);
    side_->begin();
    steps(1, spec_.last_saved);
    if (side_->first()) return;
    side_->save(folder.path(), spec_.last_saved);
    side_->count_into(counts_);
    side_.reset();
    side_ = std::make_unique<Side>(experiment_, leaves_, spec_.half(spec_.after), fault_);
    side_->load(folder.path(), spec_.last_saved, truth_.optimizer());
    steps(spec_.last_saved + 1, experiment_.config().steps);
  }

  Result counts() const {
    Result counts = counts_;
    if (side_) side_->count_into(counts);
    return counts;
  }
  std::optional<Divergence> first() const { return side_ ? side_->first() : std::nullopt; }
  std::int64_t applied_after() const {
    return truth_.optimizer().applied_steps() - applied_when_saved_;
  }

 private:
  void steps(std::int64_t first, std::int64_t last) {
    for (std::int64_t step = first; step <= last && !side_->first(); ++step) {
      truth_.step(step);
      side_->run_step(step, truth_.optimizer());
      if (step == spec_.last_saved) applied_when_saved_ = truth_.optimizer().applied_steps();
    }
  }

  const ResumeCaseSpec& spec_;
  const Experiment& experiment_;
  GradCache& leaves_;
  const std::string fault_;
  DenseBaseline truth_;
  std::unique_ptr<Side> side_;
  Result counts_;
  std::int64_t applied_when_saved_ = 0;
};

}  // namespace

Result judge_resume(const ResumeCaseSpec& spec, const Experiment& experiment, GradCache& leaves,
                    const std::string& fault) {
  const Stopwatch watch;
  ResumedRun run(spec, experiment, leaves, fault);
  std::string error = obstacle_of(spec);
  Status status = error.empty() ? Status::pass : Status::skipped;
  try {
    if (error.empty()) run.run();
  } catch (const std::exception& thrown) {
    status = status_of(thrown);
    error = message_of(thrown);
  }
  Result result = run.counts();
  result.id = spec.id();
  result.suite = "resume";
  result.group = shown_recipe(spec.recipe) + " " + std::string(name(spec.dtype));
  result.side = side_of(spec);
  result.exactness = "bitwise";
  result.seconds = watch.seconds();
  result.divergence = run.first();
  result.status = result.divergence ? Status::fail : status;
  result.reason = error;
  if (result.divergence) {
    result.reason = describe(*result.divergence) + (error.empty() ? "" : " (then: " + error + ")");
  } else if (status == Status::pass && (result.compared == 0 || run.applied_after() <= 0)) {
    result.status = Status::mistrusted;
    result.reason = "no step was applied after the checkpoint was loaded";
  }
  return result;
}

}  // namespace zeroproof::verification
