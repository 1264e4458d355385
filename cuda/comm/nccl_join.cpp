#include "cuda/comm/nccl_join.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>

#include "common/base/error.hpp"
#include "common/base/span.hpp"
#include "common/comm/collective_call.hpp"

namespace zeroproof::cuda {

namespace {

// How a rank's attempt ended. The worst of all ranks counts, so the order is one of values.
constexpr std::uint64_t joined = 0;
constexpr std::uint64_t late = 1;
constexpr std::uint64_t failed = 2;

}  // namespace

void join_ranks(NcclHandle& handle, Communicator& control, std::chrono::milliseconds limit) {
  ncclUniqueId id{};
  if (control.rank() == 0) {
    const NcclFunctions& nccl = handle.nccl();
    const ncclResult_t result = nccl.ncclGetUniqueId(&id);
    ZP_CHECK(result == ncclSuccess, ErrorCode::unavailable, "NCCL did not begin " + handle.name(),
             nccl_says(nccl, result, nullptr),
             "see which network interface NCCL_SOCKET_IFNAME names");
  }
  control.broadcast(std::as_writable_bytes(Span<char>(id.internal)), 0);
  std::uint64_t outcome = joined;
  std::optional<Error> mine;
  try {
    if (!handle.connect(control.world_size(), control.rank(), id, limit)) outcome = late;
  } catch (const Error& error) {
    outcome = failed;
    mine = error;
  }
  // A rank that failed knows it at once, the others only when their limit is over. All wait for that: who left sooner
  // would end a job of processes before the others could say why.
  control.all_reduce(Span<std::uint64_t>(&outcome, 1), IntegerReduce::max);
  if (mine) throw *mine;
  if (outcome == joined) return;
  handle.abort();
  if (outcome == failed)
    control.barrier();  // which rank failed, and why, is the error of this barrier
  fail(ErrorCode::timeout,
       "the ranks did not come together in " + handle.name() + " within " + describe(limit),
       "all of them tried, so a device or a link between two hangs",
       "run it again with NCCL_DEBUG=WARN, or raise the time limit");
}

}  // namespace zeroproof::cuda
