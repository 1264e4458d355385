#include "verification/training/lbfgs/trajectory.hpp"

#include <algorithm>
#include <limits>

#include "common/comm/self.hpp"
#include "verification/training/lbfgs/sharded_point.hpp"

namespace zeroproof::verification {
namespace {

void spread(const FlatLayout& layout, const std::vector<Piece>& pieces, Span<const float> shard,
            std::vector<float>& whole) {
  whole.resize(layout.padded_numel(), std::numeric_limits<float>::quiet_NaN());
  for (const Piece& piece : pieces) {
    std::copy_n(shard.begin() + piece.local_begin, piece.numel, whole.begin() + piece.global_begin);
  }
}

/// Records the results of another closure on one rank.
class Recorder final : public Closure {
 public:
  Recorder(const LbfgsSetup& place, Closure& inner, std::vector<SavedEvaluation>& evaluations)
      : place_(place), inner_(inner), evaluations_(evaluations) {}

 private:
  double compute(Span<const float> master_shard, Span<float> grad_shard) override {
    SavedEvaluation& saved = evaluations_.emplace_back();
    saved.loss = inner_.evaluate(master_shard, grad_shard);
    spread(*place_.layout, own_pieces(place_), master_shard, saved.point);
    spread(*place_.layout, own_pieces(place_), grad_shard, saved.grad);
    return saved.loss;
  }

  const LbfgsSetup& place_;
  Closure& inner_;
  std::vector<SavedEvaluation>& evaluations_;
};

}  // namespace

void SavedLbfgs::add(const FlatLayout& layout, const std::vector<Piece>& pieces,
                     const LbfgsState& mine) {
  scalars_ = mine;
  scalars_.master = scalars_.grad_before = scalars_.move = {};
  scalars_.steps.clear();
  scalars_.grad_changes.clear();
  spread(layout, pieces, mine.master, master_);
  if (mine.pending) {
    spread(layout, pieces, mine.grad_before, grad_before_);
    spread(layout, pieces, mine.move, move_);
  }
  steps_.resize(mine.steps.size());
  grad_changes_.resize(mine.grad_changes.size());
  for (std::size_t i = 0; i < steps_.size(); ++i) spread(layout, pieces, mine.steps[i], steps_[i]);
  for (std::size_t i = 0; i < grad_changes_.size(); ++i) {
    spread(layout, pieces, mine.grad_changes[i], grad_changes_[i]);
  }
}

LbfgsState SavedLbfgs::full() const {
  LbfgsState state = scalars_;
  state.master = master_;
  state.grad_before = grad_before_;
  state.move = move_;
  state.steps.assign(steps_.begin(), steps_.end());
  state.grad_changes.assign(grad_changes_.begin(), grad_changes_.end());
  return state;
}

LbfgsTrajectory true_trajectory(const LbfgsRecipe& recipe, const LbfgsProblem& problem) {
  const auto alone = make_self_communicator();
  const ShardMap shards(problem.layout().padded_numel(), 1, problem.bucket_numel());
  LbfgsSetup setup;
  setup.layout = &problem.layout();
  setup.shards = &shards;
  setup.comm = alone.get();
  setup.hyper = recipe.hyper;
  LbfgsTrajectory trajectory;
  trajectory.start = SavedLbfgs(problem.start());
  const auto optimizer = reference_lbfgs().make(setup);
  optimizer->load_state(trajectory.start.full());
  for (std::int64_t step = 1; step <= recipe.steps(); ++step) {
    SavedStep& saved = trajectory.steps.emplace_back();
    const auto closure = problem.closure(setup, reference_lbfgs(), step);
    Recorder recorder(setup, *closure, saved.evaluations);
    saved.report = optimizer->step(recorder);
    saved.state.add(problem.layout(), own_pieces(setup), optimizer->state());
  }
  return trajectory;
}

std::string reason_to_mistrust(const LbfgsRecipe& recipe, const LbfgsTrajectory& trajectory) {
  std::int64_t stored = 0;
  std::int64_t skipped = 0;
  for (std::size_t i = 0; i < recipe.ends.size(); ++i) {
    const LbfgsReport& report = trajectory.steps[i].report;
    if (report.end != recipe.ends[i]) {
      return "step " + std::to_string(i + 1) + " ends by " + std::string(name(report.end)) +
             ", not by " + std::string(name(recipe.ends[i])) + ", as this recipe requires";
    }
    stored += report.pairs_stored;
    skipped += report.pairs_skipped;
  }
  if (stored == 0) return "no pair was stored, so no direction was made from the memory";
  if (skipped < recipe.skipped) return "no pair was skipped, as this recipe requires";
  if (recipe.evicts && stored <= recipe.hyper.history_size) return "no pair had to be removed";
  const double first = trajectory.steps.front().report.first_loss;
  if (!(trajectory.steps.back().report.loss < first)) return "the loss did not fall";
  return {};
}

}  // namespace zeroproof::verification
