#pragma once
// Transfers between ranks that are threads of this process, with data in device memory. Needs no
// CUDA.

#include <memory>

#include "common/comm/communicator.hpp"

namespace zeroproof::cuda {

/// Collective over control, which must outlive the returned communicator, and whose ranks share
/// addresses.
///
/// A communicator whose spans are device memory and whose calls are enqueued on the current stream
/// of the calling host thread (cuda/device/runtime/stream.hpp): a call returns when all ranks have
/// enqueued their parts, and later work of that stream may use and reuse its buffers. The ranks
/// meet, compare their calls and fail like those of control; no host thread waits for the device,
/// and the device waits for no host thread.
///
/// The device of a rank is chosen before this (choose_device). A call cannot be captured into a
/// graph, because streams of other ranks take part in it. Groups made by split() have the same
/// properties; there are no shared windows. Errors: unavailable if control's ranks share no
/// addresses.
std::unique_ptr<Communicator> make_device_copies(Communicator& control);

}  // namespace zeroproof::cuda
