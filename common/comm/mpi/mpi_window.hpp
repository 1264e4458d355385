#pragma once
// Memory that processes of one machine share (internal to the MPI communicator).

#include <cstdint>
#include <memory>
#include <vector>

#include "common/comm/communicator.hpp"
#include "common/comm/mpi/mpi_native.hpp"

namespace zeroproof {

/// Collective, among ranks that all share memory. sizes: [world_size] bytes requested by each rank. The own block is
/// initialized, those of others only after the first fence. `comm` has the ranks of `native`, in which
/// all_share_memory() has been called, and must outlive the window.
std::unique_ptr<SharedWindow> make_mpi_window(MpiNative& native,
                                              const std::vector<std::int64_t>& sizes,
                                              Communicator& comm, const BlockingLimit& limit);

}  // namespace zeroproof
