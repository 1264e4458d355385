#include "verification/bench/mpi_library.hpp"

#include <cstddef>
#include <limits>
#include <mutex>
#include <vector>

#include "common/base/error.hpp"
#include "common/comm/mpi/mpi_calls.hpp"
#include "common/comm/mpi_session.hpp"

namespace zeroproof {

namespace {

int checked_count(std::int64_t count) {
  ZP_CHECK(count <= std::numeric_limits<int>::max(), ErrorCode::invalid_argument,
           "a collective of the MPI library was given " + std::to_string(count) + " elements",
           "it counts in int", "use a smaller model");
  return static_cast<int>(count);
}

}  // namespace

struct MpiLibrary::Handles {
  MPI_Comm comm = MPI_COMM_NULL;
  int size = 1;

  int part(std::int64_t numel) const {
    ZP_CHECK(
        numel % size == 0, ErrorCode::invalid_argument,
        std::to_string(numel) + " elements do not make " + std::to_string(size) + " equal parts",
        "every rank has as many", "use a multiple of the ranks");
    return checked_count(numel) / size;
  }
};

MpiLibrary::MpiLibrary() : handles_(std::make_unique<Handles>()) {
  const std::lock_guard lock(mpi_mutex());
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &handles_->comm), "MPI_Comm_dup");
  check_mpi(MPI_Comm_set_errhandler(handles_->comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi(MPI_Comm_size(handles_->comm, &handles_->size), "MPI_Comm_size");
}

/// After a failure the communicator is kept until MPI ends: freeing it would wait for ranks that
/// have ended.
MpiLibrary::~MpiLibrary() {
  if (mpi_process_state().broken) return;
  const std::lock_guard lock(mpi_mutex());
  MPI_Comm_free(&handles_->comm);
}

void MpiLibrary::reduce_scatter(Span<const float> send, Span<float> recv) {
  const std::vector<int> counts(handles_->size, handles_->part(numel(send)));
  ZP_CHECK(numel(recv) == counts[0], ErrorCode::invalid_argument,
           "reduce_scatter would receive " + std::to_string(counts[0]) +
               " elements in a buffer of " + std::to_string(recv.size()),
           "every rank gets its part", "pass a buffer of that size");
  const std::lock_guard lock(mpi_mutex());
  check_mpi(MPI_Reduce_scatter(send.data(), recv.data(), counts.data(), MPI_FLOAT, MPI_SUM,
                               handles_->comm),
            "MPI_Reduce_scatter");
}

void MpiLibrary::all_reduce(Span<const float> send, Span<float> recv) {
  ZP_CHECK(send.size() == recv.size(), ErrorCode::invalid_argument,
           "all_reduce was given buffers of " + std::to_string(send.size()) + " and " +
               std::to_string(recv.size()) + " elements",
           "sums are elementwise", "pass buffers of one size");
  const std::lock_guard lock(mpi_mutex());
  check_mpi(MPI_Allreduce(send.data(), recv.data(), checked_count(numel(send)), MPI_FLOAT, MPI_SUM,
                          handles_->comm),
            "MPI_Allreduce");
}

void MpiLibrary::all_gather(Span<std::uint16_t> all) {
  const int part = handles_->part(numel(all));
  const std::lock_guard lock(mpi_mutex());
  check_mpi(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all.data(), part, MPI_UINT16_T,
                          handles_->comm),
            "MPI_Allgather");
}

void MpiLibrary::barrier() {
  const std::lock_guard lock(mpi_mutex());
  check_mpi(MPI_Barrier(handles_->comm), "MPI_Barrier");
}

std::string MpiLibrary::version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  const std::lock_guard lock(mpi_mutex());
  check_mpi(MPI_Get_library_version(text, &length), "MPI_Get_library_version");
  const std::string all(text, static_cast<std::size_t>(length));
  return all.substr(0, all.find_first_of(",\n"));
}

}  // namespace zeroproof
