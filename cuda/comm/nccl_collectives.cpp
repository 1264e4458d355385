#include "cuda/comm/nccl_collectives.hpp"

#include <algorithm>
#include <vector>

#include "cuda/device/runtime/memory.hpp"

namespace zeroproof::cuda {

namespace {

cudaStream_t stream() { return static_cast<cudaStream_t>(device::native_stream()); }

bool equally_long(Span<const Span<std::byte>> blocks) {
  return std::ranges::all_of(blocks,
                             [&](const auto& block) { return block.size() == blocks[0].size(); });
}

bool contiguous(Span<const Span<std::byte>> blocks) {
  for (std::size_t i = 1; i < blocks.size(); ++i) {
    if (blocks[i].data() != blocks[0].data() + i * blocks[0].size()) return false;
  }
  return true;
}

}  // namespace

/// A group must be ended even if a call in it failed.
template <class Calls>
ncclResult_t NcclCollectives::group(const Calls& calls) {
  const NcclFunctions& nccl = handle_.nccl();
  if (const ncclResult_t begun = nccl.ncclGroupStart(); begun != ncclSuccess) return begun;
  ncclResult_t first = ncclSuccess;
  calls([&](ncclResult_t result) {
    if (first == ncclSuccess && result != ncclInProgress) first = result;
  });
  const ncclResult_t ended = nccl.ncclGroupEnd();
  return first != ncclSuccess ? first : ended;
}

/// Sends to and receives from other ranks. Two ranks without data for each other make no call.
ncclResult_t NcclCollectives::exchange(SendBlocks send, RecvBlocks recv) {
  const NcclFunctions& nccl = handle_.nccl();
  bool moves = false;
  for (std::size_t peer = 0; peer < recv.size(); ++peer)
    moves = moves || (peer != rank_ && !(send[peer].empty() && recv[peer].empty()));
  if (!moves) return ncclSuccess;
  return group([&](const auto& note) {
    for (std::size_t peer = 0; peer < recv.size(); ++peer) {
      if (peer == rank_) continue;
      const int other = static_cast<int>(peer);
      if (!send[peer].empty())
        note(nccl.ncclSend(send[peer].data(), send[peer].size(), ncclUint8, other, handle_.comm(),
                           stream()));
      if (!recv[peer].empty())
        note(nccl.ncclRecv(recv[peer].data(), recv[peer].size(), ncclUint8, other, handle_.comm(),
                           stream()));
    }
  });
}

ncclResult_t NcclCollectives::all_to_all(SendBlocks send, RecvBlocks recv) {
  device::enqueue_on_device(recv[rank_].data(), send[rank_].data(), numel(send[rank_]));
  return exchange(send, recv);
}

ncclResult_t NcclCollectives::all_gather(Span<const std::byte> mine, RecvBlocks recv) {
  gathered_ = nullptr;
  const std::size_t size = mine.size();
  if (recv.size() > 1 && equally_long(recv)) {
    if (size == 0) return ncclSuccess;
    std::byte* target = recv[0].data();
    if (!contiguous(recv)) {
      target = scratch_.take(static_cast<std::int64_t>(recv.size() * size)).data();
      gathered_ = target;
    }
    return handle_.nccl().ncclAllGather(mine.data(), target, size, ncclUint8, handle_.comm(),
                                        stream());
  }
  if (mine.data() != recv[rank_].data())
    device::enqueue_on_device(recv[rank_].data(), mine.data(), numel(mine));
  return exchange(std::vector<Span<const std::byte>>(recv.size(), mine), recv);
}

void NcclCollectives::finish_gather(RecvBlocks recv) {
  if (gathered_ == nullptr) return;
  for (std::size_t from = 0; from < recv.size(); ++from)
    device::enqueue_on_device(recv[from].data(), gathered_ + from * recv[from].size(),
                              numel(recv[from]));
  scratch_.used();
}

ncclResult_t NcclCollectives::broadcast(Span<std::byte> data, int root) {
  if (data.empty()) return ncclSuccess;
  return handle_.nccl().ncclBroadcast(data.data(), data.data(), data.size(), ncclUint8, root,
                                      handle_.comm(), stream());
}

ncclResult_t NcclCollectives::all_reduce(Span<std::uint64_t> data, ncclRedOp_t op) {
  if (data.empty()) return ncclSuccess;
  return handle_.nccl().ncclAllReduce(data.data(), data.data(), data.size(), ncclUint64, op,
                                      handle_.comm(), stream());
}

ncclResult_t NcclCollectives::reduce_scatter(Span<const float> send,
                                             Span<const std::int64_t> counts, Span<float> recv) {
  const NcclFunctions& nccl = handle_.nccl();
  if (send.empty()) return ncclSuccess;
  if (std::ranges::all_of(counts, [&](std::int64_t count) { return count == counts[0]; })) {
    return nccl.ncclReduceScatter(send.data(), recv.data(), recv.size(), ncclFloat32, ncclSum,
                                  handle_.comm(), stream());
  }
  return group([&](const auto& note) {
    const float* part = send.data();
    for (std::size_t root = 0; root < counts.size(); ++root) {
      const auto count = static_cast<std::size_t>(counts[root]);
      float* const sum = root == rank_ ? recv.data() : nullptr;
      if (count > 0) {
        note(nccl.ncclReduce(part, sum, count, ncclFloat32, ncclSum, static_cast<int>(root),
                             handle_.comm(), stream()));
      }
      part += count;
    }
  });
}

}  // namespace zeroproof::cuda
