#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/step/distributed_optimizer.hpp"
#include "cuda/comm/exchange/bucket_plan.hpp"
#include "cuda/comm/exchange/comm_groups.hpp"
#include "cuda/host/base/piece_loop.hpp"
#include "cuda/offload/state_split.hpp"
#include "cuda/optimizer/matrices/matrix_exchange.hpp"

namespace zeroproof::cuda {

/// The elements of one rank, the buckets in which ranks exchange them, and the communicators for
/// it.
struct RankLayout {
  /// comm_groups: communicators in that space; by default, those of the setup. Collective over tp
  /// for the rule muon. Errors: invalid_argument if the production optimizer cannot run the setup.
  RankLayout(const OptimizerSetup& setup, Space space,
             const std::optional<CommGroups>& comm_groups);
  RankLayout(const RankLayout&) = delete;
  RankLayout& operator=(const RankLayout&) = delete;

  /// Elements whose state is in the rank's own buffers.
  std::vector<Piece> resident_pieces() const;
  std::int64_t resident_numel() const;

  const OptimizerSetup setup;  ///< on a device without windows, which are host memory
  const CommGroups comm_groups;
  const std::vector<FlatRange> ranges;  ///< elements whose state is on this rank
  const host::PieceLoop pieces;         ///< of the ranges
  const std::vector<BucketPlan> plans;
  const std::unique_ptr<StateSplit> split;         ///< null: nothing is offloaded
  const std::unique_ptr<MatrixExchange> matrices;  ///< null: the rule updates no matrices (R28)
};

}  // namespace zeroproof::cuda
