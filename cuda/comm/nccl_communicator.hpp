#pragma once
// Data between ranks that keep it in device memory, moved by NCCL. This header needs neither nccl.h nor CUDA.

#include <memory>

#include "common/comm/communicator.hpp"
#include "cuda/comm/nccl_library.hpp"
#include "cuda/comm/nccl_watch.hpp"

namespace zeroproof::cuda {

/// Collective over control, which must outlive what is returned; so must the library. Each rank has chosen its device
/// before (choose_device), and keeps to it.
///
/// A communicator whose spans are device memory and whose calls are enqueued on the current stream of the calling host
/// thread (cuda/device/runtime/stream.hpp). A call returns when NCCL has it, which may take until the other ranks have
/// made theirs but does not wait for the device; its buffers may be used, and used again, by what comes later in that
/// stream. Calls in several streams follow each other on the device. A call cannot be captured into a graph.
///
/// NCCL does not compare the calls of ranks: a wrong one hangs, and the wait for what comes after it has to be watched
/// (nccl_watch.hpp; what is returned is a WatchedCommunicator). That, NCCL's own errors and calls that it does not take within
/// the limit break the communicator for good, end what it has on the device and tell the other ranks through control.
///
/// all_reduce knows sum and max; flags travel as maxima. split makes a group from nothing but control's group, so calls
/// of this one may be under way. shared_window is null. barrier is one of hosts. The end of the communicator waits for
/// its calls, within the limit.
/// limit: half of control's, or less (nccl_watch.hpp).
/// Errors: unavailable if a device or a driver does not work, or NCCL does not let two ranks share a device; those of
/// control.
std::unique_ptr<Communicator> make_nccl_communicator(
    Communicator& control, const NcclLibrary& library,
    std::chrono::milliseconds limit = default_nccl_limit);

}  // namespace zeroproof::cuda
