#include "verification/case_run.hpp"

#include <algorithm>
#include <tuple>

#include "common/base/error.hpp"
#include "common/base/parallel_for.hpp"
#include "cuda/distributed_optimizer.hpp"
#include "verification/verdict.hpp"

namespace zeroproof::verification {
namespace {

int threads_per_rank(const CaseSpec& spec) {
  if (spec.omp_threads > 0) return spec.omp_threads;
  return std::max(1, available_cores() / spec.world.size);
}

bool earlier(const Divergence& a, const Divergence& b) {
  return std::tie(a.step, a.phase, a.rank) < std::tie(b.step, b.phase, b.rank);
}

void merge_tallies(const std::vector<PhaseTally>& from, std::vector<PhaseTally>& into) {
  for (const PhaseTally& tally : from) {
    const auto same = std::find_if(into.begin(), into.end(), [&](const PhaseTally& other) {
      return other.phase == tally.phase && other.buffer == tally.buffer && other.against == tally.against;
    });
    if (same == into.end()) {
      into.push_back(tally);
    } else {
      same->compared += tally.compared;
      same->differing += tally.differing;
    }
  }
}

}  // namespace

RankPair::MakeOptimizer candidate_factory(Twin twin) {
  switch (twin) {
    case Twin::host:
      return
          [](const OptimizerSetup& s) { return cuda::make_distributed_optimizer(s, cuda::StepForm::phases); };
    case Twin::host_fused:
      return
          [](const OptimizerSetup& s) { return cuda::make_distributed_optimizer(s, cuda::StepForm::fused); };
    case Twin::device:
      break;
  }
  return [](const OptimizerSetup& s) { return cuda::make_distributed_optimizer(s, cuda::StepForm::device); };
}

CaseRun::CaseRun(const Experiment& experiment, const CaseSpec& spec, std::unique_ptr<World> world,
                 std::string fault)
    : experiment_(experiment),
      spec_(spec),
      world_(std::move(world)),
      fault_(std::move(fault)),
      layout_(experiment, spec, world_->size()),
      ranks_(static_cast<std::size_t>(world_->size())) {
  try {
    world_->run([&](int rank, const RankPair::Communicators& comms) {
      ranks_[static_cast<std::size_t>(rank)] = std::make_unique<RankPair>(
          experiment_, spec_, layout_, comms, threads_per_rank(spec_), fault_, candidate_factory(spec_.twin));
    });
  } catch (const std::exception& error) {
    record_error(error);
  }
}

void CaseRun::record_error(const std::exception& error) {
  Status status = Status::error;
  if (const auto* ours = dynamic_cast<const Error*>(&error)) {
    if (ours->code() == ErrorCode::timeout) status = Status::hung;
    if (ours->code() == ErrorCode::unavailable) status = Status::skipped;
  }
  end(status, error.what());
}

void CaseRun::run_step(std::int64_t step, LeafCache& leaves, const reference::DenseOptimizer* truth) {
  if (over_) return;
  try {
    world_->run([&](int rank, const RankPair::Communicators&) {
      ranks_[static_cast<std::size_t>(rank)]->run_step(step, leaves, truth);
    });
    ++steps_;
    for (const auto& rank : ranks_) over_ = over_ || (rank && rank->stopped());
  } catch (const std::exception& error) {
    record_error(error);
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
    const RankPair& rank = *ranks_[r];
    reports[r] = {rank.tallies(),        rank.divergence(),     rank.timing(),
                  rank.reference_hash(), rank.candidate_hash(), rank.skipped_steps(),
                  rank.clipped_steps(),  rank.growths(),        rank.moved_elements()};
  }
  return reports;
}

CaseResult CaseRun::result(const std::optional<Digest>& truth_hash, const std::string& replay) {
  CaseResult result;
  result.spec = spec_;
  result.replay = replay;
  result.steps = steps_;
  std::vector<RankReport> all = reports();
  if (error_.empty()) all = world_->collect(std::move(all));
  for (const RankReport& rank : all) {
    merge_tallies(rank.tallies, result.tallies);
    if (rank.divergence && (!result.divergence || earlier(*rank.divergence, *result.divergence))) {
      result.divergence = rank.divergence;
    }
    result.moved_elements += rank.moved_elements;
  }
  std::sort(result.tallies.begin(), result.tallies.end(), [](const PhaseTally& a, const PhaseTally& b) {
    return std::tie(a.phase, a.buffer, a.against) < std::tie(b.phase, b.buffer, b.against);
  });
  if (!all.empty()) {
    const RankReport& root = all.front();
    if (steps_ > 0) {
      result.reference_hash = root.reference_hash;
      result.candidate_hash = root.candidate_hash;
    }
    result.skipped_steps = root.skipped_steps;
    result.clipped_steps = root.clipped_steps;
    result.growths = root.growths;
    result.timing = root.timing;
  }
  judge(result, experiment_, truth_hash, error_status_, error_);
  return result;
}

}  // namespace zeroproof::verification
