#include "verification/training/case_run.hpp"

#include <algorithm>
#include <tuple>

#include "common/base/error.hpp"
#include "common/base/parallel_for.hpp"
#include "cuda/distributed_optimizer.hpp"
#include "cuda/enqueued_optimizer.hpp"
#include "verification/cases/status_of.hpp"
#include "verification/cli/program/exit_code.hpp"
#include "verification/cli/program/plant.hpp"
#include "verification/compare/judge/making_order.hpp"
#include "verification/compare/judge/verdict.hpp"
#include "verification/interfaces/plugin/plugin_ops.hpp"
#include "verification/ops/op_candidate.hpp"

namespace zeroproof::verification {
namespace {

/// An equal share of the cores for each rank of all concurrent cases. But a rank that could have
/// several threads gets at least two, so that loops that run in parallel in production are compared
/// as such.
int threads_per_rank(const CaseSpec& spec, int cases_at_once) {
  if (spec.omp_threads > 0) return spec.omp_threads;
  const int alone = std::max(1, available_cores() / spec.world.size);
  return std::max(alone / cases_at_once, std::min(alone, 2));
}

/// The position of a buffer in the data flow of a phase; names that are no buffer of the contract
/// (gradients) come first.
int flow_place(const std::string& buffer) {
  for (const BufferId id : making_order) {
    if (name(id) == buffer) return making_place(id);
  }
  return -1;
}

void keep_most(const std::optional<StepCalls>& calls, std::optional<StepCalls>& most) {
  if (!calls) return;
  if (!most) most = StepCalls{};
  for (const auto number : {&StepCalls::launches, &StepCalls::graph_launches, &StepCalls::copies,
                            &StepCalls::allocations, &StepCalls::waits}) {
    (*most).*number = std::max((*most).*number, (*calls).*number);
  }
}

/// Later steps only: the first step allocates, and the second one is captured into a graph.
std::optional<StepCalls> calls_of_step(const DistributedOptimizer& candidate, std::int64_t step) {
  const auto* const enqueued = dynamic_cast<const cuda::EnqueuedOptimizer*>(&candidate);
  if (enqueued == nullptr || step < 3) return {};
  const cuda::DeviceCalls calls = enqueued->calls();
  return StepCalls{calls.launches, calls.graph_launches, calls.copies, calls.allocations,
                   calls.waits};
}

void merge_tallies(const std::vector<PhaseTally>& from, std::vector<PhaseTally>& into) {
  for (const PhaseTally& tally : from) {
    const auto same = std::find_if(into.begin(), into.end(), [&](const PhaseTally& other) {
      return other.phase == tally.phase && other.buffer == tally.buffer &&
             other.against == tally.against;
    });
    if (same == into.end()) {
      into.push_back(tally);
    } else {
      same->compared += tally.compared;
      same->differing += tally.differing;
    }
  }
}

/// An error on one rank only, with the others correct up to that phase, is not caused by a formula.
void tell_of_ranks(std::optional<Divergence>& first, const std::vector<RankReport>& all) {
  if (!first || !first->phase || first->differing == 0 || all.size() < 2) return;
  for (std::size_t r = 0; r < all.size(); ++r) {
    const std::optional<Divergence>& other = all[r].divergence;
    if (static_cast<int>(r) == first->rank || !other) continue;
    if (std::pair{other->step, other->phase} <= std::pair{first->step, first->phase}) return;
  }
  first->hint += (first->hint.empty() ? "" : "; ") + std::string("on rank ") +
                 std::to_string(first->rank) + " alone, of " + std::to_string(all.size());
}

}  // namespace

bool earlier(const Divergence& a, const Divergence& b) {
  const auto key = [](const Divergence& d) {
    return std::tuple(d.step, d.phase, flow_place(d.buffer), d.rank);
  };
  return key(a) < key(b);
}

RankComparison::MakeOptimizer candidate_factory(Implementation implementation,
                                                const std::string& fault, Mode mode) {
  return [implementation, fault, mode](const OptimizerSetup& setup) {
    if (implementation.foreign)
      return mode == Mode::whole ? make_plugin_step(setup) : make_plugin_optimizer(setup);
    if (!fault.empty())
      return plant_fault(fault, setup, implementation.space, implementation.fused,
                         implementation.graphs);
    if (implementation.graphs) {
      return std::unique_ptr<DistributedOptimizer>(
          cuda::make_enqueued_optimizer(setup, implementation.fused, true));
    }
    return cuda::make_distributed_optimizer(setup, implementation.space, implementation.fused);
  };
}

CaseRun::CaseRun(const Experiment& experiment, const CaseSpec& spec, std::unique_ptr<World> world,
                 std::string fault, int cases_at_once, bool keep_messages)
    : experiment_(experiment),
      spec_(spec),
      world_(std::move(world)),
      fault_(std::move(fault)),
      layout_(experiment, spec, world_->size()),
      transport_(static_cast<std::size_t>(world_->size())),
      ranks_(static_cast<std::size_t>(world_->size())),
      device_calls_(ranks_.size()) {
  try {
    world_->run([&](int rank, RankComparison::Communicators comms) {
      comms.keep_messages = keep_messages;
      if (!fault_.empty()) transport_[rank] = plant_transport(fault_, *comms.candidate);
      if (transport_[rank]) comms.candidate = transport_[rank].get();
      ranks_[rank] = std::make_unique<RankComparison>(
          experiment_, spec_, layout_, comms, threads_per_rank(spec_, cases_at_once),
          candidate_factory(spec_.implementation, fault_, spec_.mode));
    });
  } catch (const std::exception& error) {
    record_error(error, "before the first step");
  }
}

void CaseRun::accept_any_order() {
  any_order_ = true;
  for (const auto& rank : ranks_) {
    if (rank) rank->accept_any_order();
  }
}

void CaseRun::record_error(const std::exception& error, const std::string& when) {
  Status status = status_of(error);
  std::string reason = message_of(error);
  if (const auto* failure = dynamic_cast<const CandidateFailure*>(&error))
    status = failure->status();
  if (const auto* ours = dynamic_cast<const Error*>(&error)) {
    if (ours->code() == ErrorCode::timeout || ours->code() == ErrorCode::comm) {
      reason = when + ": " + reason;
      flights_ = world_->flights();
    }
  }
  end(status, reason);
}

void CaseRun::run_step(std::int64_t step, GradCache& leaves,
                       const reference::DenseOptimizer* truth) {
  if (over_) return;
  try {
    world_->run([&](int rank, const RankComparison::Communicators&) {
      world_->set_place(rank, "step " + std::to_string(step) + " of " + spec_.id());
      const auto at = static_cast<std::size_t>(rank);
      ranks_[at]->run_step(step, leaves, truth);
      if (spec_.mode == Mode::whole)
        keep_most(calls_of_step(ranks_[at]->candidate(), step), device_calls_[at]);
    });
    ++steps_;
    for (const auto& rank : ranks_) over_ = over_ || (rank && rank->stopped());
  } catch (const std::exception& error) {
    record_error(error, "step " + std::to_string(step));
  }
}

void CaseRun::end(Status status, const std::string& reason) {
  over_ = true;
  error_status_ = status;
  error_ = reason;
}

std::vector<RankReport> CaseRun::reports() const {
  std::vector<RankReport> reports(ranks_.size());
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    if (!ranks_[r]) continue;
    const RankComparison& rank = *ranks_[r];
    TrainingRun& run = reports[r].run;
    run.tallies = rank.tallies();
    run.timing = rank.timing();
    run.reference_hash = rank.reference_hash();
    run.candidate_hash = rank.candidate_hash();
    run.skipped_steps = rank.skipped_steps();
    run.skips = rank.skips();
    run.losses = rank.candidate_losses();
    run.reference_losses = rank.reference_losses();
    run.clipped_steps = rank.clipped_steps();
    run.growths = rank.growths();
    run.updated_elements = rank.updated_elements();
    run.moved_elements = rank.moved_elements();
    run.nan_elements = rank.nan_elements();
    run.device_calls = device_calls_[r];
    run.bytes = rank.bytes();
    reports[r].divergence = rank.divergence();
    reports[r].results = rank.results();
  }
  return reports;
}

Result CaseRun::result(const std::optional<Digest>& truth_hash, const std::string& replay) {
  Result result = training_result(spec_);
  result.replay = replay;
  if (any_order_) result.held_to = "any-order";
  std::vector<RankReport> all = reports();
  if (error_.empty()) {
    try {
      all = world_->collect(std::move(all));
    } catch (const Error& error) {
      record_error(error, "after the last step");
      all = reports();
    }
  }
  TrainingRun& run = *result.training;
  run = all.front().run;  // counts equal on all ranks, and times and hashes of rank 0
  run.steps = steps_;
  run.ended = std::ranges::any_of(ranks_, [](const auto& rank) { return rank && rank->ended(); });
  if (steps_ == 0) {
    run.reference_hash.reset();
    run.candidate_hash.reset();
  }
  run.tallies.clear();
  run.updated_elements = run.moved_elements = run.nan_elements = 0;
  run.bytes.clear();
  for (const RankReport& rank : all) {
    merge_tallies(rank.run.tallies, run.tallies);
    run.updated_elements += rank.run.updated_elements;
    run.moved_elements += rank.run.moved_elements;
    run.nan_elements += rank.run.nan_elements;
    keep_most(rank.run.device_calls, run.device_calls);
    run.bytes.insert(run.bytes.end(), rank.run.bytes.begin(), rank.run.bytes.end());
    if (rank.results) result.ranks.push_back(*rank.results);
    if (rank.divergence && (!result.divergence || earlier(*rank.divergence, *result.divergence))) {
      result.divergence = rank.divergence;
    }
  }
  tell_of_ranks(result.divergence, all);
  std::sort(run.tallies.begin(), run.tallies.end(), [](const PhaseTally& a, const PhaseTally& b) {
    return std::tie(a.phase, a.buffer, a.against) < std::tie(b.phase, b.buffer, b.against);
  });
  judge(result, experiment_, truth_hash, error_status_, error_);
  result.flights = flights_;
  return result;
}

}  // namespace zeroproof::verification
