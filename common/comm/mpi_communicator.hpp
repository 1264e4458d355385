#pragma once
// Ranks as processes.

#include <memory>

#include "common/comm/communicator.hpp"
#include "common/comm/mpi_session.hpp"

namespace zeroproof {

/// A communicator over all processes of MPI_COMM_WORLD, for use by one thread at a time while an MpiSession
/// lives. All ranks make, and destroy, their communicators in the same order; making one does not wait for
/// the others.
///
/// Groups: different communicators of a process may be used in different threads at the same time, although MPI is
/// initialized with MPI_THREAD_SERIALIZED only: every call of the library is made under one lock, and nearly all return at
/// once. Progress is made inside calls alone. Three things are for one thread at a time, and in the same order on
/// all ranks: making communicators (split included), native_reduce_scatter and shared_window, because the
/// last two wait inside MPI. A destroyed communicator waits until all its ranks destroy it.
///
/// A failure in a group reaches every rank of the world, in any call. A rank that waits elsewhere is
/// not blamed for arriving late; ranks that wait for each other in two groups fail after twice the
/// limit.
///
/// timeout: a call fails when nothing has moved for this long. A rank that stops inside of MPI
/// while it writes into another's queue in shared memory blocks that one too, and the others then
/// name it.
///
/// max_message_bytes: longer blocks travel in pieces of this size, at most 2^31 - 1, the same on all ranks.
/// The time limit starts again with every piece, so a piece should take a small part of it.
///
/// After an Error end the process: MPI may still write into buffers of the call that failed
/// (MpiSession then calls MPI_Abort at its end).
std::unique_ptr<Communicator> make_mpi_communicator(
    std::chrono::milliseconds timeout = default_comm_timeout,
    std::int64_t max_message_bytes = std::int64_t{1} << 24);

}  // namespace zeroproof
