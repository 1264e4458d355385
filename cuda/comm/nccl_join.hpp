#pragma once
// Creates an NCCL communicator over the ranks. Needs nccl.h: for nccl_*.cpp only.

#include <chrono>

#include "common/comm/communicator.hpp"
#include "cuda/comm/nccl_handle.hpp"

namespace zeroproof::cuda {

/// Collective over control, whose ranks become those of the handle. Returns when all have joined.
/// Errors: unavailable or comm if NCCL reports one, timeout if the ranks do not join in time; those
/// of control, which name an absent rank.
void join_ranks(NcclHandle& handle, Communicator& control, std::chrono::milliseconds limit);

}  // namespace zeroproof::cuda
