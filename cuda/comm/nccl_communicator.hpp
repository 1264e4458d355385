#pragma once
// Transfers by NCCL between ranks with data in device memory. This header needs neither nccl.h nor
// CUDA.

#include <memory>

#include "common/comm/communicator.hpp"
#include "cuda/comm/nccl_library.hpp"
#include "cuda/comm/nccl_watch.hpp"

namespace zeroproof::cuda {

/// Collective over control, which must outlive the returned communicator, as must the library. Each
/// rank has chosen its device before (choose_device) and does not change it.
///
/// A communicator whose spans are device memory and whose calls are enqueued on the current stream
/// of the calling host thread (cuda/device/runtime/stream.hpp). A call returns when NCCL has
/// accepted it, which may take until the other ranks have made theirs but does not wait for the
/// device; later work of that stream may use and reuse its buffers. Calls in several streams are
/// sequential on the device. A call cannot be captured into a graph.
///
/// NCCL does not compare the calls of ranks: a wrong one hangs, and the wait for subsequent work
/// has to be watched (nccl_watch.hpp; the result is a WatchedCommunicator). Such a hang, errors of
/// NCCL and calls that it does not accept within the limit break the communicator for good, end its
/// work on the device and notify the other ranks through control.
///
/// all_reduce supports sum and max; flags are sent as maxima. split makes a group from control's
/// group alone, so calls of this communicator may be running. shared_window is null. barrier is one
/// of hosts. The destructor waits for running calls, within the limit. limit: half of control's, or
/// less (nccl_watch.hpp). Errors: unavailable if a device or a driver does not work, or NCCL does
/// not let two ranks share a device; those of control.
std::unique_ptr<Communicator> make_nccl_communicator(
    Communicator& control, const NcclLibrary& library,
    std::chrono::milliseconds limit = default_nccl_limit);

}  // namespace zeroproof::cuda
