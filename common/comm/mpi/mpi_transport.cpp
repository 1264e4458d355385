#include "common/comm/mpi/mpi_transport.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <utility>

#include "common/base/error.hpp"
#include "common/comm/mpi/mpi_calls.hpp"
#include "common/comm/mpi_session.hpp"

namespace zeroproof {

namespace {

/// Control, data, and the library's own messages with an explicit tag.
constexpr int tags_per_channel = 3;
constexpr std::chrono::milliseconds abandon_limit{100};

int narrow_count(std::size_t count) {
  ZP_CHECK(count <= static_cast<std::size_t>(std::numeric_limits<int>::max()), ErrorCode::internal,
           "a message has " + std::to_string(count) + " bytes", "MPI counts are int",
           "send it in pieces of max_message_bytes");
  return static_cast<int>(count);
}

}  // namespace

struct MpiTransport::Requests {
  struct Transfer {
    MPI_Request request = MPI_REQUEST_NULL;
    Kind kind = Kind::control;
    int peer = 0;
    int send_bytes = -1;  // -1: a receive
  };

  int rank = 0;
  std::vector<int> in_world;  // [world_size]
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

  /// True if no transfer is in progress but sent control messages.
  bool all_ended() {
    const std::lock_guard lock(mpi_mutex());
    bool ended = true;
    for (Transfer& transfer : transfers) {
      if (transfer.request == MPI_REQUEST_NULL) continue;
      int done = 0;
      if (MPI_Test(&transfer.request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done != 0)
        continue;
      if (transfer.send_bytes < 0 || transfer.kind == Kind::data) ended = false;
    }
    return ended;
  }

  MPI_Request* request(int handle) { return &transfers[handle].request; }
};

namespace {

/// Half of the tags of MPI, for the communicators of the world; groups have the other half. Counted
/// in whole channels.
int tags_per_half() {
  void* limit = nullptr;
  int found = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &limit, &found);
  return (found != 0 ? *static_cast<int*>(limit) : 32767) / (2 * tags_per_channel) *
         tags_per_channel;
}

void check_tags(std::int64_t tag, int limit) {
  ZP_CHECK(tag < limit, ErrorCode::unavailable,
           "this process made more than " + std::to_string(limit / tags_per_channel) +
               " communicators of one kind",
           "each has its own message tags", "keep one communicator instead of making new ones");
}

}  // namespace

MpiTransport::MpiTransport() : requests_(std::make_unique<Requests>()) {
  const std::lock_guard lock(mpi_mutex());
  int initialized = 0;
  int finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  ZP_CHECK(initialized != 0 && finalized == 0, ErrorCode::invalid_argument, "MPI is not running",
           "a communicator needs it", "make an MpiSession in main that outlives all communicators");
  int world_size = 0;
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &requests_->rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &world_size), "MPI_Comm_size");
  requests_->in_world.resize(world_size);
  std::iota(requests_->in_world.begin(), requests_->in_world.end(), 0);
  requests_->first_tag = tags_per_channel * mpi_process_state().channels++;
  check_tags(requests_->first_tag, tags_per_half());
}

MpiTransport::MpiTransport(std::vector<int> in_world, std::int64_t ticket)
    : requests_(std::make_unique<Requests>()) {
  const std::lock_guard lock(mpi_mutex());
  int self = 0;
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &self), "MPI_Comm_rank");
  requests_->in_world = std::move(in_world);
  requests_->rank =
      static_cast<int>(std::find(requests_->in_world.begin(), requests_->in_world.end(), self) -
                       requests_->in_world.begin());
  check_tags(tags_per_channel * ticket, tags_per_half());
  requests_->first_tag = tags_per_half() + static_cast<int>(tags_per_channel * ticket);
}

MpiTransport::MpiTransport(MpiTransport&&) noexcept = default;
MpiTransport::~MpiTransport() = default;

int MpiTransport::rank() const { return requests_->rank; }
int MpiTransport::world_size() const { return static_cast<int>(requests_->in_world.size()); }
const std::vector<int>& MpiTransport::in_world() const { return requests_->in_world; }
int MpiTransport::channel() const { return requests_->first_tag / tags_per_channel; }
int MpiTransport::library_tag() const { return requests_->first_tag + 2; }

int MpiTransport::send(int peer, Kind kind, Span<const std::byte> data) {
  const int count = narrow_count(data.size());
  const std::lock_guard lock(mpi_mutex());
  const int handle = requests_->new_handle({MPI_REQUEST_NULL, kind, peer, count});
  check_mpi(MPI_Isend(data.data(), count, MPI_BYTE, in_world(peer), requests_->tag(kind),
                      MPI_COMM_WORLD, requests_->request(handle)),
            "sending to rank " + std::to_string(in_world(peer)));
  return handle;
}

int MpiTransport::receive(int peer, Kind kind, Span<std::byte> data) {
  const int count = narrow_count(data.size());
  const std::lock_guard lock(mpi_mutex());
  const int handle = requests_->new_handle({MPI_REQUEST_NULL, kind, peer, -1});
  check_mpi(MPI_Irecv(data.data(), count, MPI_BYTE, in_world(peer), requests_->tag(kind),
                      MPI_COMM_WORLD, requests_->request(handle)),
            "receiving from rank " + std::to_string(in_world(peer)));
  return handle;
}

std::optional<std::int64_t> MpiTransport::finished(int handle) {
  const std::lock_guard lock(mpi_mutex());
  Requests::Transfer& transfer = requests_->transfers[handle];
  int done = 0;
  MPI_Status status;
  check_mpi(MPI_Test(&transfer.request, &done, &status),
            "a transfer with rank " + std::to_string(in_world(transfer.peer)));
  if (done == 0) return std::nullopt;
  transfer.request = MPI_REQUEST_NULL;
  if (transfer.send_bytes >= 0) return transfer.send_bytes;
  int count = 0;
  check_mpi(MPI_Get_count(&status, MPI_BYTE, &count), "MPI_Get_count");
  return count;
}

bool MpiTransport::abandon() {
  {
    const std::lock_guard lock(mpi_mutex());
    for (Requests::Transfer& transfer : requests_->transfers) {
      if (transfer.request != MPI_REQUEST_NULL && transfer.send_bytes < 0)
        MPI_Cancel(&transfer.request);
    }
  }
  const auto deadline = std::chrono::steady_clock::now() + abandon_limit;
  while (!requests_->all_ended()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace zeroproof
