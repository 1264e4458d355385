#include "cuda/comm/nccl_join.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>

#include "common/base/error.hpp"
#include "common/base/span.hpp"
#include "common/comm/collective_call.hpp"

namespace zeroproof::cuda {

namespace {

// Result of a rank's attempt. The worst result of all ranks is used, so the order is that of
// values.
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
             nccl_says(nccl, result, nullptr), "check the network interface in NCCL_SOCKET_IFNAME");
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
  // A rank that failed returns immediately, the others only after the limit. All wait for that: a
  // rank that left earlier would end a job of processes before the others could report the cause.
  control.all_reduce(Span<std::uint64_t>(&outcome, 1), IntegerReduce::max);
  if (mine) throw *mine;
  if (outcome == joined) return;
  handle.abort();
  if (outcome == failed)
    control.barrier();  // this barrier reports the rank that failed, with the reason
  fail(ErrorCode::timeout, "the ranks did not join " + handle.name() + " within " + describe(limit),
       "all of them tried, so a device or a link between two hangs",
       "run it again with NCCL_DEBUG=WARN, or raise the time limit");
}

}  // namespace zeroproof::cuda
