#pragma once
// Buffers of one rank. Every row that updates owns the state it advances; all start from the same values.

#include <memory>
#include <vector>

#include "common/comm/communicator.hpp"
#include "common/layout/flat_layout.hpp"
#include "cuda/host/window_step.hpp"
#include "verification/bench/measure/huge_buffer.hpp"
#include "verification/bench/ranks/mpi_library.hpp"

namespace zeroproof::verification::bench {

/// Master and moments of a stretch of parameters, and the number of steps they have seen.
struct RankState {
  explicit RankState(const FlatRange& range);

  cuda::host::FusedState views() const { return {master.span(), exp_avg.span(), exp_avg_sq.span()}; }

  HugeBuffer<float> master, exp_avg, exp_avg_sq;  // [range.numel()]
  std::int64_t steps = 0;
};

/// Gradient nodes of all ranks in a shared window, with the additions that are left to the owners.
/// Collective.
struct WindowNodes {
  WindowNodes(Communicator& comm, std::int64_t micro_batches, std::int64_t numel, const FlatRange& shard);

  std::int64_t micro_batches;
  std::unique_ptr<SharedWindow> window;
  std::vector<Span<const float>> nodes;  // [num_nodes] of [shard numel], in increasing first micro-batch
  std::unique_ptr<cuda::host::FoldPlan> plan;
};

struct RankData {
  RankData(Communicator& comm, MpiLibrary& library, std::int64_t numel);

  /// Copy k of the parameters, which all ranks share: bf16 [numel].
  Span<std::uint16_t> shared_params(int copy) const;

  Communicator& comm;
  MpiLibrary& library;
  std::int64_t numel;
  FlatRange shard;  ///< of this rank

  HugeBuffer<float> leaf;         // [numel] this rank's gradient, of micro-batch rank()
  HugeBuffer<float> scattered;    // [shard] the library's sums
  HugeBuffer<float> reduced;      // [numel] the same of all-reduce
  HugeBuffer<float> copied;       // [numel] target of memcpy
  HugeBuffer<float> clipped_sum;  // [shard] G of the rows that clip
  HugeBuffer<std::uint16_t> scattered_params, reduced_params;          // [numel] bf16
  RankState scattered_state, window_state, more_state, clipped_state;  // of the shard
  RankState reduced_state;                                             // of everything
  WindowNodes one_each;                                                ///< M = R
  WindowNodes more;                      ///< M = 2 R + 1: some ranks hold two nodes
  std::unique_ptr<SharedWindow> params;  ///< all copies lie in the block of rank 0
};

/// Copies of the shared parameters.
enum SharedCopy { window_copy, more_copy, clipped_copy, limit_copy, num_shared_copies };

}  // namespace zeroproof::verification::bench
