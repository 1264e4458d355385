#include "common/step/distributed_optimizer.hpp"

namespace zeroproof {

bool DistributedOptimizer::step(LeafSource& leaves, StepTap* tap) {
  for (const Phase phase : all_phases) {
    if (skipped_on_overflow(phase) && skipped()) continue;
    run_phase(phase, leaves);
    if (tap == nullptr) continue;
    for (const ExposedBuffer& buffer : exposed(phase)) tap->observe(phase, buffer);
  }
  return !skipped();
}

}  // namespace zeroproof
