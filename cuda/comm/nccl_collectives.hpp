#pragma once
// The collectives of a communicator as NCCL calls on one stream. Needs nccl.h: for nccl_*.cpp only.

#include <cstdint>

#include "common/comm/communicator.hpp"
#include "cuda/comm/device_scratch.hpp"
#include "cuda/comm/nccl_handle.hpp"

namespace zeroproof::cuda {

/// Each enqueues all of its work on the current stream, or returns NCCL's result; ncclInProgress:
/// it will be enqueued. The choice of functions depends only on counts, which are identical on all
/// ranks: a different placement of memory on one rank must not make it call other functions.
class NcclCollectives {
 public:
  using SendBlocks = Span<const Span<const std::byte>>;
  using RecvBlocks = Span<const Span<std::byte>>;

  NcclCollectives(NcclHandle& handle, int rank)
      : handle_(handle), rank_(static_cast<std::size_t>(rank)) {}

  ncclResult_t all_to_all(SendBlocks send, RecvBlocks recv);
  /// Parts of equal length are gathered in one block of memory, which is recv or is copied to recv
  /// at the end: call finish_gather() after the call has been enqueued.
  ncclResult_t all_gather(Span<const std::byte> mine, RecvBlocks recv);
  void finish_gather(RecvBlocks recv);
  ncclResult_t broadcast(Span<std::byte> data, int root);
  ncclResult_t all_reduce(Span<std::uint64_t> data, ncclRedOp_t op);
  ncclResult_t reduce_scatter(Span<const float> send, Span<const std::int64_t> counts,
                              Span<float> recv);

 private:
  template <class Calls>
  ncclResult_t group(const Calls& calls);
  ncclResult_t exchange(SendBlocks send, RecvBlocks recv);

  NcclHandle& handle_;
  std::size_t rank_;
  /// Ordinary memory: only the own rank determines whether a gather needs it (if its blocks are not
  /// contiguous), and all ranks create a window together. Messages have none either; their size
  /// differs from rank to rank.
  DeviceScratch scratch_;
  const std::byte* gathered_ = nullptr;  // in scratch_; null: at its target
};

}  // namespace zeroproof::cuda
