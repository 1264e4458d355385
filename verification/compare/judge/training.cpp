#include "verification/compare/judge/training.hpp"

#include "common/comm/threads.hpp"
#include "verification/compare/judge/training_rank.hpp"

namespace zeroproof::verification {

Snapshot train(const Experiment& experiment, GradCache& leaves, const CaseSpec& spec,
               const Snapshot& from, std::int64_t first, std::int64_t last,
               const RankComparison::MakeOptimizer& make_optimizer,
               const std::function<void(const RankOfStep&)>& after) {
  const CaseLayout layout(experiment, spec, spec.world.size);
  ThreadWorld world(spec.world.size);
  Snapshot result;
  run_ranks(world, [&](Communicator& comm) {
    TrainingRank rank(experiment, leaves, spec, layout, {comm, comm}, make_optimizer);
    rank.load(from);
    for (std::int64_t step = first; step <= last; ++step) {
      rank.step(step);
      if (after) after({step, layout, rank.optimizer(), comm});
    }
    Snapshot state = rank.collect();
    if (comm.rank() == 0) result = std::move(state);
  });
  return result;
}

}  // namespace zeroproof::verification
