#include "common/comm/mpi_transport.hpp"

// The C interface is all that is used; the old C++ one would need a library of its own.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <chrono>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "common/base/error.hpp"
#include "common/comm/mpi_session.hpp"

namespace zeroproof {

namespace {

constexpr int lowest_tag_limit = 32767;  // what MPI guarantees for MPI_TAG_UB
constexpr std::chrono::milliseconds abandon_limit{100};

void check(int code, const std::string& what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  fail(ErrorCode::comm, what + " failed: " + std::string(text, static_cast<std::size_t>(length)),
       "the MPI library refused or lost it", "see whether the other ranks and the network are alive");
}

int narrow_count(std::size_t count) {
  ZP_CHECK(count <= static_cast<std::size_t>(std::numeric_limits<int>::max()), ErrorCode::internal,
           "a message has " + std::to_string(count) + " bytes", "MPI counts are int",
           "send it in pieces of max_message_bytes");
  return static_cast<int>(count);
}

struct Transfer {
  MPI_Request request = MPI_REQUEST_NULL;
  MpiTransport::Kind kind = MpiTransport::Kind::control;
  int peer = 0;
  int send_bytes = -1;  // -1: a receive
};

}  // namespace

struct MpiTransport::Requests {
  int rank = 0;
  int world_size = 1;
  int first_tag = 0;
  std::vector<Transfer> transfers;  // by handle; MPI_REQUEST_NULL: free

  int tag(Kind kind) const { return first_tag + (kind == Kind::data ? 1 : 0); }

  int new_handle(const Transfer& transfer) {
    std::size_t handle = 0;
    while (handle < transfers.size() && transfers[handle].request != MPI_REQUEST_NULL) ++handle;
    if (handle == transfers.size()) transfers.emplace_back();
    transfers[handle] = transfer;
    return static_cast<int>(handle);
  }

  MPI_Request* request(int handle) { return &transfers[static_cast<std::size_t>(handle)].request; }
};

MpiTransport::MpiTransport() : requests_(std::make_unique<Requests>()) {
  int initialized = 0;
  int finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  ZP_CHECK(initialized != 0 && finalized == 0, ErrorCode::invalid_argument, "MPI is not running",
           "a communicator needs it", "make an MpiSession in main that outlives all communicators");
  check(MPI_Comm_rank(MPI_COMM_WORLD, &requests_->rank), "MPI_Comm_rank");
  check(MPI_Comm_size(MPI_COMM_WORLD, &requests_->world_size), "MPI_Comm_size");
  requests_->first_tag = 2 * mpi_process_state().channels++;
  ZP_CHECK(requests_->first_tag < lowest_tag_limit, ErrorCode::unavailable,
           "this process made more than " + std::to_string(lowest_tag_limit / 2) + " communicators",
           "each has its own message tags", "keep one communicator instead of making new ones");
}

MpiTransport::~MpiTransport() = default;

int MpiTransport::rank() const { return requests_->rank; }
int MpiTransport::world_size() const { return requests_->world_size; }

int MpiTransport::send(int peer, Kind kind, Span<const std::byte> data) {
  const int count = narrow_count(data.size());
  const int handle = requests_->new_handle({MPI_REQUEST_NULL, kind, peer, count});
  check(MPI_Isend(data.data(), count, MPI_BYTE, peer, requests_->tag(kind), MPI_COMM_WORLD,
                  requests_->request(handle)),
        "sending to rank " + std::to_string(peer));
  return handle;
}

int MpiTransport::receive(int peer, Kind kind, Span<std::byte> data) {
  const int count = narrow_count(data.size());
  const int handle = requests_->new_handle({MPI_REQUEST_NULL, kind, peer, -1});
  check(MPI_Irecv(data.data(), count, MPI_BYTE, peer, requests_->tag(kind), MPI_COMM_WORLD,
                  requests_->request(handle)),
        "receiving from rank " + std::to_string(peer));
  return handle;
}

std::optional<std::int64_t> MpiTransport::finished(int handle) {
  Transfer& transfer = requests_->transfers[static_cast<std::size_t>(handle)];
  int done = 0;
  MPI_Status status;
  check(MPI_Test(&transfer.request, &done, &status), "a transfer with rank " + std::to_string(transfer.peer));
  if (done == 0) return std::nullopt;
  transfer.request = MPI_REQUEST_NULL;
  if (transfer.send_bytes >= 0) return transfer.send_bytes;
  int count = 0;
  check(MPI_Get_count(&status, MPI_BYTE, &count), "MPI_Get_count");
  return count;
}

bool MpiTransport::abandon() {
  for (Transfer& transfer : requests_->transfers) {
    if (transfer.request != MPI_REQUEST_NULL && transfer.send_bytes < 0) MPI_Cancel(&transfer.request);
  }
  const auto deadline = std::chrono::steady_clock::now() + abandon_limit;
  while (true) {
    bool receiving = false;
    bool data = false;
    for (Transfer& transfer : requests_->transfers) {
      if (transfer.request == MPI_REQUEST_NULL) continue;
      int done = 0;
      if (MPI_Test(&transfer.request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done != 0) continue;
      if (transfer.send_bytes < 0) receiving = true;
      if (transfer.kind == Kind::data) data = true;
    }
    if (!receiving && !data) return true;
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace zeroproof
