#pragma once
// Drives the judge itself: a case of byte_gpt_tiny whose reference or candidate a test edits.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/error.hpp"
#include "tests/verification/training/training_support.hpp"
#include "verification/compare/judge/dense_baseline.hpp"
#include "verification/faults/controls/wrapped_optimizer.hpp"
#include "verification/training/ranks/world.hpp"

namespace zeroproof::tests {

/// Edits an optimizer after one of its phases (or a load, which is no phase) has run on a rank.
using Tamper =
    std::function<void(int rank, std::optional<Phase> phase, DistributedOptimizer& optimizer)>;

/// An optimizer with edits after its phases.
class Tampered final : public verification::WrappedOptimizer {
 public:
  Tampered(std::unique_ptr<DistributedOptimizer> inner, const OptimizerSetup& setup, Tamper tamper)
      : WrappedOptimizer(std::move(inner), *setup.layout),
        rank_(setup.comm->rank()),
        tamper_(std::move(tamper)) {}

  void load_state(const FullState& state) override {
    inner_->load_state(state);
    tamper_(rank_, {}, *inner_);
  }
  void run_phase(Phase phase, GradSource& leaves) override {
    inner_->run_phase(phase, leaves);
    tamper_(rank_, phase, *inner_);
  }

 private:
  int rank_;
  Tamper tamper_;
};

inline verification::RankComparison::MakeOptimizer tampered(
    const verification::RankComparison::MakeOptimizer& make, const Tamper& tamper) {
  return [make, tamper](const OptimizerSetup& setup) {
    return std::make_unique<Tampered>(make(setup), setup, tamper);
  };
}

/// The judge's results of every rank.
struct Judged {
  std::optional<verification::Divergence> first;  ///< of the lowest rank that has one
  std::vector<verification::PhaseTally> tallies;  ///< of rank 0
  std::int64_t clipped_steps = 0;
};

/// Runs steps 1 to `steps` of a case, and the undistributed optimizer in parallel.
inline Judged judge_case(TinyTraining& run, const verification::CaseSpec& spec, int steps,
                         const verification::RankComparison::MakeOptimizer& make_candidate,
                         const verification::RankComparison::MakeOptimizer& make_reference,
                         GradStatsFn* candidate_stats = nullptr) {
  using verification::RankComparison;
  const auto world = verification::make_local_world(spec.world, 60);
  const verification::CaseLayout layout(run.experiment, spec, world->size());
  verification::DenseBaseline truth(run.experiment, run.leaves);
  std::vector<std::unique_ptr<RankComparison>> ranks(world->size());
  world->run([&](int rank, const RankComparison::Communicators& comms) {
    ranks[rank] = std::make_unique<RankComparison>(run.experiment, spec, layout, comms, 1,
                                                   make_candidate, make_reference, candidate_stats);
  });
  for (int step = 1; step <= steps; ++step) {
    try {
      truth.step(step);
    } catch (const Error& error) {  // both sides must end at this step too
      if (error.code() != ErrorCode::nonfinite) throw;
    }
    world->run([&](int rank, const RankComparison::Communicators&) {
      RankComparison& comparison = *ranks[rank];
      if (!comparison.stopped()) comparison.run_step(step, run.leaves, &truth.optimizer());
    });
    run.leaves.forget();
  }
  Judged judged;
  for (const auto& rank : ranks) {
    if (!judged.first) judged.first = rank->divergence();
  }
  judged.tallies = ranks.front()->tallies();
  judged.clipped_steps = ranks.front()->clipped_steps();
  return judged;
}

/// The same, with edits of the candidate alone.
inline Judged judge_candidate(TinyTraining& run, const verification::CaseSpec& spec, int steps,
                              const Tamper& tamper) {
  return judge_case(run, spec, steps, tampered(host_optimizer(), tamper), reference_optimizer());
}

/// A buffer of a phase, or nothing if it does not exist under these settings.
inline std::optional<ExposedBuffer> exposed(DistributedOptimizer& optimizer, Phase phase,
                                            BufferId id) {
  for (ExposedBuffer& buffer : optimizer.exposed(phase)) {
    if (buffer.id == id) return std::move(buffer);
  }
  return {};
}

inline bool says(const Judged& judged, const std::string& part) {
  return judged.first && judged.first->what.find(part) != std::string::npos;
}

}  // namespace zeroproof::tests
