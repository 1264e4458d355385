#include "common/step/state_buffers.hpp"

namespace zeroproof {

std::vector<BufferId> kept_buffers(const OptimizerHyper& hyper) {
  const RuleTraits& rule = traits_of(hyper.rule);
  std::vector<BufferId> kept;
  if (rule.exp_avg) kept.push_back(BufferId::exp_avg);
  if (rule.exp_avg_sq) kept.push_back(BufferId::exp_avg_sq);
  if (rule.amsgrad && hyper.amsgrad) kept.push_back(BufferId::max_exp_avg_sq);
  if (rule.momentum_buffer && hyper.momentum != 0) kept.push_back(BufferId::momentum_buffer);
  return kept;
}

}  // namespace zeroproof
