#pragma once
// Data ranks that have the same figures.

#include <cstdint>
#include <vector>

#include "verification/tools/plan/predict/leaf_stacks.hpp"
#include "verification/tools/plan/predict/predicted_step.hpp"

namespace zeroproof::verification {

/// Data ranks of a run. Those of a kind own as much of every bucket and combine their leaves in the
/// same way, and so do their instances; kinds that differ only in that order need the same memory.
struct RankKinds {
  std::int64_t count = 0;
  std::vector<std::int64_t>
      first;  ///< the first rank of those that need the same memory, in increasing order
};

/// run: of any rank, with its buckets set by set_contract_buckets. stacks: of run.
RankKinds kinds_of_ranks(const PredictedStep& run, std::int64_t bucket_numel, LeafStacks& stacks);

}  // namespace zeroproof::verification
