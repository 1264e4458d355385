#pragma once
// What a test tells libzp_fake_nccl.so, and asks it, besides what nccl.h says. Found with dlsym.

extern "C" {

/// What shall go wrong from now on, several with commas, "" for nothing; ZP_FAKE_NCCL says so from the start.
///   fail=all_gather:3:1   the third all_gather of a communicator on rank 1 returns an internal error. Also init, send,
///                         recv, broadcast, all_reduce, reduce_scatter, reduce, register, register_message
///   fail=mem_alloc:2      ncclMemAlloc has no memory the second time, on whichever rank
///   stall=1:3             the third thing that rank 1 of a communicator is given, a call or a group, never begins
///   async=1:3             nor does this one, and from then on rank 1 has an asynchronous error
///   patience=50           calls are in progress for at most so many milliseconds, if other ranks have not made theirs;
///                         after that, or at once with 0, they count as enqueued, as NCCL does it
///   ranks_per_device=1    ranks of a communicator that have chosen the same device are refused if they are more,
///   unless
///                         NCCL_MULTI_RANK_GPU_ENABLE=1 is set and the version is 2.30 or later; those that have not
///                         are left waiting
///   version=3.1.0         that is what it says it is
void zp_fake_nccl_plan(const char* plan);

/// What was wrong in calls since the last time, a line for each. The text is good until the next call of this.
const char* zp_fake_nccl_complaints();

/// How often a rank has received something in a window of its own, launches of graphs included.
long long zp_fake_nccl_received_in_windows();
/// How often in memory that it has registered for messages, and alone.
long long zp_fake_nccl_received_in_messages();
/// Windows, and memory for messages, that are registered with communicators that can be called.
long long zp_fake_nccl_windows();
}
