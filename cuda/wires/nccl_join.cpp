#include "cuda/wires/nccl_join.hpp"

#include <cstddef>

#include "common/base/error.hpp"
#include "common/base/span.hpp"
#include "common/comm/collective_call.hpp"

namespace zeroproof::cuda {

void join_ranks(NcclHandle& handle, Communicator& control, std::chrono::milliseconds limit) {
  ncclUniqueId id{};
  if (control.rank() == 0) {
    const NcclFunctions& nccl = handle.nccl();
    const ncclResult_t result = nccl.ncclGetUniqueId(&id);
    ZP_CHECK(result == ncclSuccess, ErrorCode::unavailable, "NCCL did not begin " + handle.name(),
             nccl_says(nccl, result, nullptr), "see which network interface NCCL_SOCKET_IFNAME names");
  }
  control.broadcast(std::as_writable_bytes(Span<char>(id.internal)), 0);
  if (!handle.connect(control.world_size(), control.rank(), id, limit)) {
    handle.abort();
    control.barrier();  // who is not there is named
    fail(ErrorCode::timeout,
         "the ranks did not come together in " + handle.name() + " within " + describe(limit),
         "all of them tried, so a device or a link between two hangs",
         "run it again with NCCL_DEBUG=WARN, or raise the time limit");
  }
  control.barrier();  // nobody goes on alone if another one could not join
}

}  // namespace zeroproof::cuda
