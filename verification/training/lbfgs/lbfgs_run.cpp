// The run of one L-BFGS case through the steps.

#include <algorithm>
#include <chrono>
#include <mutex>
#include <tuple>

#include "common/base/error.hpp"
#include "common/base/fpenv.hpp"
#include "verification/cases/status_of.hpp"
#include "verification/cli/program/exit_code.hpp"
#include "verification/cli/program/plant.hpp"
#include "verification/training/lbfgs/byte_gpt_problem.hpp"
#include "verification/training/lbfgs/judge.hpp"
#include "verification/training/lbfgs/lbfgs_case.hpp"
#include "verification/training/lbfgs/rosenbrock.hpp"
#include "verification/training/lbfgs/sharded_point.hpp"
#include "verification/training/ranks/world.hpp"

namespace zeroproof::verification {
namespace {

struct Rank {
  LbfgsSetup setup;
  std::unique_ptr<LbfgsOptimizer> optimizer;
  std::unique_ptr<LbfgsJudge> judge;
};

/// The ranks of one implementation. `comms` selects the communicator of a rank.
class Side {
 public:
  Side(const LbfgsRecipe& recipe, const LbfgsProblem& problem, const LbfgsTrajectory& truth,
       const LbfgsImplementation& implementation, const ShardMap& shards, World& world,
       Communicator* RankComparison::Communicators::*comms)
      : recipe_(recipe),
        problem_(problem),
        truth_(truth),
        implementation_(implementation),
        shards_(shards),
        world_(world),
        comms_(comms),
        ranks_(static_cast<std::size_t>(world.size())) {}

  /// Errors: those of the ranks; earlier differences are kept.
  void run(const std::string& what, const std::string& fault) {
    make(what);
    fault_ = fault;
    load(truth_.start, 0, " after it was loaded");
    for (std::int64_t step = 1; step <= recipe_.steps() && !first(); ++step) {
      run_step(step);
      if (step == recipe_.resumed_after() && !first()) resume(step);
    }
  }

  /// The judge with the first difference, if any.
  const LbfgsJudge* first() const {
    const LbfgsJudge* earliest = nullptr;
    for (const Rank& rank : ranks_) {
      if (!rank.judge || !rank.judge->divergence()) continue;
      const auto order = [](const LbfgsJudge& judge) {
        return std::pair{judge.divergence()->step, judge.order()};
      };
      if (earliest == nullptr || order(*rank.judge) < order(*earliest)) earliest = rank.judge.get();
    }
    return earliest;
  }

  const std::vector<Rank>& ranks() const { return ranks_; }

 private:
  void make(const std::string& what) {
    world_.run([&](int r, const RankComparison::Communicators& comms) {
      Rank& rank = ranks_[r];
      rank.setup.layout = &problem_.layout();
      rank.setup.shards = &shards_;
      rank.setup.comm = comms.*comms_;
      rank.setup.hyper = recipe_.hyper;
      rank.setup.exec.num_threads = r % 2 + 1;
      rank.judge = std::make_unique<LbfgsJudge>(rank.setup, what);
    });
  }

  void load(const SavedLbfgs& saved, std::int64_t step, const std::string& when) {
    world_.run([&](int r, const RankComparison::Communicators&) {
      Rank& rank = ranks_[r];
      rank.optimizer =
          fault_.empty() ? implementation_.make(rank.setup) : plant_fault(fault_, rank.setup);
      rank.optimizer->load_state(saved.full());
      rank.judge->state(step, saved.full(), rank.optimizer->state(), when);
    });
  }

  void run_step(std::int64_t step) {
    const SavedStep& truth = truth_.steps[step - 1];
    world_.run([&](int r, const RankComparison::Communicators&) {
      const Rank& rank = ranks_[r];
      rank.judge->begin_step(step, truth);
      const auto closure = problem_.closure(rank.setup, implementation_, step);
      JudgedClosure judged(*closure, *rank.judge);
      rank.judge->report(rank.optimizer->step(judged));
      rank.judge->state(step, truth.state.full(), rank.optimizer->state(), "");
    });
  }

  void resume(std::int64_t step) {
    SavedLbfgs saved;
    for (const Rank& rank : ranks_) {
      saved.add(problem_.layout(), own_pieces(rank.setup), rank.optimizer->state());
    }
    load(saved, step, " after it was loaded again");
  }

  const LbfgsRecipe& recipe_;
  const LbfgsProblem& problem_;
  const LbfgsTrajectory& truth_;
  const LbfgsImplementation& implementation_;
  const ShardMap& shards_;
  World& world_;
  Communicator* RankComparison::Communicators::*comms_;
  std::string fault_;
  std::vector<Rank> ranks_;
};

/// Runs a side and records its result. True if the verdict is still open.
bool judge_side(Side& side, const std::string& what, const std::string& fault, Result& result) {
  Status status = Status::pass;
  std::string error;
  try {
    side.run(what, fault);
  } catch (const std::exception& thrown) {
    status = status_of(thrown);
    error = message_of(thrown);
  }
  result.ranks.clear();  // of the reference
  for (const Rank& rank : side.ranks()) {
    if (!rank.judge) continue;
    result.ranks.push_back(rank.judge->results());
    result.compared += rank.judge->compared();
    result.differing += rank.judge->differing();
  }
  if (const LbfgsJudge* first = side.first()) {
    result.status = Status::fail;
    result.divergence = first->divergence();
    result.reason = describe(*result.divergence) + (error.empty() ? "" : " (then: " + error + ")");
    return false;
  }
  result.status = status;
  result.reason = error;
  return error.empty();
}

}  // namespace

Result judge_lbfgs(const LbfgsCaseSpec& spec, const LbfgsProblem& problem,
                   const LbfgsTrajectory& truth, const LbfgsImplementation& candidate,
                   const LbfgsRunOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  Result result;
  result.id = spec.id();
  result.suite = "lbfgs";
  result.group = std::string(spec.recipe->workload) + "/" + std::string(spec.recipe->name);
  result.side = "host";
  result.exactness = "bitwise";
  if (options.replay_line) result.replay = options.replay_line(result.id);
  const ShardMap shards =
      make_shard_map(spec.layout, problem.layout(), spec.world.size, problem.bucket_numel());
  const auto world = make_local_world(spec.world, options.config.comm_timeout_s);
  using Comms = RankComparison::Communicators;
  Side reference(*spec.recipe, problem, truth, reference_lbfgs(), shards, *world,
                 &Comms::reference);
  Side production(*spec.recipe, problem, truth, candidate, shards, *world, &Comms::candidate);
  // The reference first: a difference of production is relative to the reference over the same
  // ranks too.
  const bool open =
      judge_side(reference, "of the reference over ranks differs from the reference on one rank",
                 "", result) &&
      judge_side(production, "differs from the reference", options.fault, result);
  if (open) {
    result.reason = reason_to_mistrust(*spec.recipe, truth);
    if (!result.reason.empty()) result.status = Status::mistrusted;
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

std::unique_ptr<LbfgsProblem> make_problem(const LbfgsRecipe& recipe, const RunConfig& config) {
  if (recipe.workload == "rosenbrock") return std::make_unique<Rosenbrock>(recipe, config.seed);
  return std::make_unique<ByteGptProblem>(config);
}

std::vector<Result> run_lbfgs_cases(const std::vector<LbfgsCaseSpec>& cases,
                                    const LbfgsRunOptions& options) {
  require_fp_environment("the thread that compares L-BFGS");
  std::vector<Result> results(cases.size());
  std::vector<bool> done(cases.size(), false);
  double finished = 0;
  for (std::size_t first = 0; first < cases.size(); ++first) {
    if (done[first]) continue;
    const LbfgsRecipe& recipe = *cases[first].recipe;
    const auto problem = make_problem(recipe, options.config);
    const LbfgsTrajectory truth = true_trajectory(recipe, *problem);
    for (std::size_t i = first; i < cases.size(); ++i) {
      if (cases[i].recipe != &recipe) continue;
      if (options.progress)
        options.progress(finished / static_cast<double>(cases.size()), cases[i].id());
      results[i] = judge_lbfgs(cases[i], *problem, truth, production_lbfgs(), options);
      done[i] = true;
      ++finished;
    }
  }
  return results;
}

}  // namespace zeroproof::verification
