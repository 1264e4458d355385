#pragma once
// Buffers of one rank. Every row that updates owns the state it advances; all start from the same values.

#include <memory>
#include <vector>

#include "common/comm/communicator.hpp"
#include "common/layout/flat_layout.hpp"
#include "cuda/host/fused_step.hpp"
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

struct RankData {
  RankData(Communicator& comm, MpiLibrary& library, std::int64_t numel);

  /// A gradient of a rank in shared memory, and one copy of the parameters that all ranks share: bf16 [numel].
  Span<float> shared_leaf(int rank) const;
  Span<std::uint16_t> shared_params() const;

  Communicator& comm;
  MpiLibrary& library;
  std::int64_t numel;
  FlatRange shard;  ///< of this rank

  HugeBuffer<float> leaf;       // [numel] this rank's gradient, of micro-batch rank()
  HugeBuffer<float> scattered;  // [shard] the library's sums
  HugeBuffer<float> reduced;    // [numel] the same of all-reduce
  HugeBuffer<float> copied;     // [numel] target of memcpy
  HugeBuffer<std::uint16_t> scattered_params, reduced_params;  // [numel] bf16
  RankState scattered_state, limit_state;                      // of the shard
  RankState reduced_state;                                     // of everything
  std::unique_ptr<SharedWindow> window;                        ///< for the limits
};

}  // namespace zeroproof::verification::bench
