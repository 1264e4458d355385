#pragma once
// Which micro-batches a rank computes (R11): the one place of the production path that says so.

#include <cstdint>
#include <vector>

#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::cuda {

/// First micro-batch of a rank's block in the contiguous assignment; that of rank + 1 is the end of the block.
inline std::int64_t first_micro_batch(const OptimizerSetup& setup, std::int64_t rank) {
  return setup.micro_batches * rank / setup.comm->world_size();
}

/// The micro-batches of this rank in increasing order: strided in stage 2, contiguous otherwise.
inline std::vector<std::int64_t> own_micro_batches(const OptimizerSetup& setup) {
  const std::int64_t rank = setup.comm->rank();
  const bool strided = setup.stage == 2;
  const std::int64_t first = strided ? rank : first_micro_batch(setup, rank);
  const std::int64_t end = strided ? setup.micro_batches : first_micro_batch(setup, rank + 1);
  std::vector<std::int64_t> own;
  for (std::int64_t j = first; j < end; j += strided ? setup.comm->world_size() : 1) own.push_back(j);
  return own;
}

}  // namespace zeroproof::cuda
