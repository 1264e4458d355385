#pragma once
// The micro-batch a data rank computes in a micro-step (R11), for every order, CP and instance.

#include <cstdint>
#include <optional>

#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::cuda {

/// Data ranks that supply micro-batches of their own: all of them, over instances, by the CP ranks of a
/// micro-batch.
inline std::int64_t micro_batch_groups(const OptimizerSetup& setup) {
  const std::int64_t instances = setup.replicas == nullptr ? 1 : setup.replicas->world_size();
  return instances * setup.comm->world_size() / setup.cp;
}

/// Micro-steps of a reduce phase: as many as any rank has micro-batches.
inline std::int64_t num_micro_steps(const OptimizerSetup& setup) {
  const std::int64_t groups = micro_batch_groups(setup);
  return (setup.micro_batches + groups - 1) / groups;
}

/// This rank's micro-batch of a micro-step, if it has one.
inline std::optional<std::int64_t> micro_batch_of(const OptimizerSetup& setup, std::int64_t micro_step) {
  const std::int64_t groups = micro_batch_groups(setup);
  const std::int64_t instance = setup.replicas == nullptr ? 0 : setup.replicas->rank();
  const std::int64_t group = (instance * setup.comm->world_size() + setup.comm->rank()) / setup.cp;
  const bool strided = setup.order == MicroBatchOrder::strided ||
                       (setup.order == MicroBatchOrder::by_stage && setup.stage >= 2);
  const std::int64_t first = setup.micro_batches * group / groups;
  const std::int64_t end = strided ? setup.micro_batches : setup.micro_batches * (group + 1) / groups;
  const std::int64_t j = strided ? micro_step * groups + group : first + micro_step;
  return j < end ? std::optional(j) : std::nullopt;
}

}  // namespace zeroproof::cuda
