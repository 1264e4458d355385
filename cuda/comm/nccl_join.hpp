#pragma once
// How ranks come to have a communicator of NCCL's. It needs nccl.h: for nccl_*.cpp only.

#include <chrono>

#include "common/comm/communicator.hpp"
#include "cuda/comm/nccl_handle.hpp"

namespace zeroproof::cuda {

/// Collective over control, whose ranks will be those of the handle. Returns when all have joined.
/// Errors: unavailable or comm if NCCL reports one, timeout if the ranks do not come together; those of control, where
/// a rank that did not come is named.
void join_ranks(NcclHandle& handle, Communicator& control, std::chrono::milliseconds limit);

}  // namespace zeroproof::cuda
