#pragma once
// Parameter-update verification: buffers that several ranks must have in common, compared over the
// ranks, without a reference.

#include <optional>
#include <string>
#include <vector>

#include "common/comm/communicator.hpp"
#include "common/step/distributed_optimizer.hpp"
#include "verification/cases/case_layout.hpp"

namespace zeroproof::verification {

/// The first place where a rank differs from the others.
struct Drift {
  int rank = 0;          ///< the rank that drifted
  int agrees_with = -1;  ///< a rank with the value of the majority
  std::string buffer;
  std::string parameter;           ///< "" if the buffer belongs to no tensor
  std::int64_t element = -1;       ///< inside the parameter as that rank has it
  std::int64_t global_index = -1;  ///< in the undistributed numbering
  std::string value;               ///< bits and value
  std::string expected;
  std::int64_t differing = 0;  ///< elements of that parameter on that rank
};

/// "rank 3 drifted: param_full of block0.mlp_up.weight[1, 4] is ..., rank 0 has ... (1 element)"
std::string describe(const Drift& drift);

/// Compares after a step, over all ranks of a case [ZeRO:replicas]: - step scalars, counters, loss
/// scaler, norm and clip coefficient: equal everywhere; - whole parameters (stages 0 to 2) and, in
/// stage 0, master and state: equal on all ranks with the same TP rank, and for TP-replicated
/// tensors on all ranks; - shards (stages 1 to 3): equal over optimizer instances. The value of the
/// majority of such a set is taken as correct, in a tie that of the lowest rank. All ranks return
/// the same. Collective over `world`.
std::optional<Drift> find_drift(const CaseLayout& layout, DistributedOptimizer& optimizer,
                                Communicator& world);

}  // namespace zeroproof::verification
