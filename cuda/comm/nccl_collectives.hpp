#pragma once
// The collectives of a communicator as calls of NCCL on one stream. It needs nccl.h: for nccl_*.cpp only.

#include <cstdint>

#include "common/comm/communicator.hpp"
#include "cuda/comm/device_scratch.hpp"
#include "cuda/comm/nccl_handle.hpp"

namespace zeroproof::cuda {

/// Each enqueues all of its work on the current stream, or returns what NCCL says; ncclInProgress: it will have.
/// Which functions are called depends on counts alone, which all ranks know: memory that lies otherwise on one rank
/// than on another must not make them call different ones.
class NcclCollectives {
 public:
  using SendBlocks = Span<const Span<const std::byte>>;
  using RecvBlocks = Span<const Span<std::byte>>;

  NcclCollectives(NcclHandle& handle, int rank)
      : handle_(handle), rank_(static_cast<std::size_t>(rank)) {}

  ncclResult_t all_to_all(SendBlocks send, RecvBlocks recv);
  /// Parts that are equally long are gathered in one piece of memory, which recv is or which is copied from in the end:
  /// finish_gather() when the call has been enqueued.
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
  /// Ordinary memory: whether a gather needs it is known to its own rank alone (blocks lie apart there), and a window
  /// is made by all ranks. Messages have none either; what they move differs in length from rank to rank.
  DeviceScratch scratch_;
  const std::byte* gathered_ = nullptr;  // in scratch_; null: where it belongs
};

}  // namespace zeroproof::cuda
