#pragma once
// Assignment of micro-batches to ranks (R11): the only definition on the production path.

#include <cstdint>
#include <optional>
#include <vector>

#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::cuda {

inline int instances(const OptimizerSetup& setup) {
  return setup.replicas == nullptr ? 1 : setup.replicas->world_size();
}
inline int instance(const OptimizerSetup& setup) {
  return setup.replicas == nullptr ? 0 : setup.replicas->rank();
}
inline int tp_ranks(const OptimizerSetup& setup) {
  return setup.tp == nullptr ? 1 : setup.tp->world_size();
}
inline int tp_rank(const OptimizerSetup& setup) {
  return setup.tp == nullptr ? 0 : setup.tp->rank();
}

inline int data_ranks(const OptimizerSetup& setup) {
  return setup.comm->world_size() * instances(setup);
}

/// Data rank of a rank of comm in an instance.
inline int data_rank(const OptimizerSetup& setup, int of_instance, int rank) {
  return of_instance * setup.comm->world_size() + rank;
}
inline int own_data_rank(const OptimizerSetup& setup) {
  return data_rank(setup, instance(setup), setup.comm->rank());
}

inline bool is_strided(const OptimizerSetup& setup) {
  if (setup.order == MicroBatchOrder::by_stage) return setup.stage >= 2;
  return setup.order == MicroBatchOrder::strided;
}

/// The micro-batches of a data rank in increasing order. The cp ranks of one micro-batch have the
/// same ones.
inline std::vector<std::int64_t> micro_batches_of(const OptimizerSetup& setup, int of_data_rank) {
  const std::int64_t holders = data_ranks(setup) / setup.cp;
  const std::int64_t holder = of_data_rank / setup.cp;
  const bool strided = is_strided(setup);
  const std::int64_t first = strided ? holder : setup.micro_batches * holder / holders;
  const std::int64_t end =
      strided ? setup.micro_batches : setup.micro_batches * (holder + 1) / holders;
  std::vector<std::int64_t> own;
  for (std::int64_t j = first; j < end; j += strided ? holders : 1) own.push_back(j);
  return own;
}

inline std::vector<std::int64_t> own_micro_batches(const OptimizerSetup& setup) {
  return micro_batches_of(setup, own_data_rank(setup));
}

/// This rank's micro-batch in a micro-step, if it has one.
inline std::optional<std::int64_t> own_micro_batch(const OptimizerSetup& setup,
                                                   std::int64_t micro_step) {
  const std::vector<std::int64_t> own = own_micro_batches(setup);
  if (micro_step >= static_cast<std::int64_t>(own.size())) return std::nullopt;
  return own[micro_step];
}

/// Micro-steps of one step: the largest number of micro-batches of a rank.
inline std::int64_t micro_steps(const OptimizerSetup& setup) {
  const std::int64_t holders = data_ranks(setup) / setup.cp;
  return (setup.micro_batches + holders - 1) / holders;
}

}  // namespace zeroproof::cuda
