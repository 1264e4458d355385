#pragma once
// Interface between a test and libzp_fake_nccl.so, besides nccl.h. Found with dlsym.

extern "C" {

/// Failures from now on, separated by commas, "" for none; ZP_FAKE_NCCL sets the initial value.
///   fail=all_gather:3:1   the third all_gather of a communicator on rank 1 returns an internal error. Also init, send,
///                         recv, broadcast, all_reduce, reduce_scatter, reduce, register, register_message
///   fail=mem_alloc:2      the second ncclMemAlloc has no memory, on any rank
///   stall=1:3             the third call or group of rank 1 of a communicator never begins
///   async=1:3             the same, and from then on rank 1 has an asynchronous error
///   patience=50           calls are in progress for at most this many milliseconds, if other ranks
///                         have not made theirs; after that, or immediately with 0, they count as
///                         enqueued, as in NCCL
///   ranks_per_device=1    if more ranks of a communicator have chosen the same device, they are
///                         refused, unless NCCL_MULTI_RANK_GPU_ENABLE=1 is set and the version is 2.30 or
///                         later; the other ranks keep waiting
///   version=3.1.0         reported version
void zp_fake_nccl_plan(const char* plan);

/// Errors in calls since the last time, one per line. The text is valid until the next call of
/// this.
const char* zp_fake_nccl_complaints();

/// Number of receives of a rank in a window of its own, including launches of graphs.
long long zp_fake_nccl_received_in_windows();
/// Number of receives in memory that it has registered for messages, alone.
long long zp_fake_nccl_received_in_messages();
/// Windows and message memory that are registered with communicators that can be called.
long long zp_fake_nccl_windows();
}
