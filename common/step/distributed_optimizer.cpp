#include "common/step/distributed_optimizer.hpp"

#include "common/base/error.hpp"

namespace zeroproof {

std::int64_t GradSource::num_tokens(std::int64_t) const {
  fail(ErrorCode::invalid_argument, "this source of gradients does not count tokens",
       "the divisor of the step is the number of tokens",
       "use loss_reduction mean, or a source that counts");
}

bool GradSource::has_grad(std::int64_t, std::int64_t) const { return true; }

void DistributedOptimizer::load_state_from(const StateSource&) {
  fail(ErrorCode::unavailable, "this optimizer only loads complete states",
       "it does not implement loading in parts", "read the whole state and call load_state");
}

bool DistributedOptimizer::step(GradSource& leaves, StepObserver* observer) {
  for (const Phase phase : all_phases) {
    if (skipped_on_overflow(phase) && skipped()) continue;
    run_phase(phase, leaves);
    if (observer == nullptr) continue;
    for (const ExposedBuffer& buffer : exposed(phase)) observer->observe(phase, buffer);
  }
  return !skipped();
}

}  // namespace zeroproof
