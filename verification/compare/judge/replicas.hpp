#pragma once
// Parameter-update verification: what several ranks must hold in common, compared over the ranks, without a reference.

#include <optional>
#include <string>
#include <vector>

#include "common/comm/communicator.hpp"
#include "common/step/distributed_optimizer.hpp"
#include "verification/cases/case_layout.hpp"

namespace zeroproof::verification {

/// The first place where a rank left the others.
struct Drift {
  int rank = 0;          ///< that drifted
  int agrees_with = -1;  ///< a rank that has what most ranks have
  std::string buffer;
  std::string parameter;           ///< "" where the buffer belongs to no tensor
  std::int64_t element = -1;       ///< inside the parameter as that rank has it
  std::int64_t global_index = -1;  ///< in the undistributed numbering
  std::string value;               ///< bits and value
  std::string expected;
  std::int64_t differing = 0;  ///< elements of that parameter on that rank
};

/// "rank 3 drifted: param_full of block0.mlp_up.weight[1, 4] is ..., rank 0 has ... (1 element)"
std::string describe(const Drift& drift);

/// Compares after a step, over all ranks of a case [ZeRO:replicas]:
///   - step scalars, counters, loss scaler, norm and clip coefficient: equal everywhere;
///   - whole parameters (stages 0 to 2) and, in stage 0, master and state: equal on all ranks with the same TP rank,
///   and
///     for TP-replicated tensors on all ranks;
///   - shards (stages 1 to 3): equal over optimizer instances.
/// What most ranks of such a set have counts as right, in a tie what the lowest rank has. All ranks return the same.
/// Collective over `world`.
std::optional<Drift> find_drift(const CaseLayout& layout, DistributedOptimizer& optimizer,
                                Communicator& world);

}  // namespace zeroproof::verification
