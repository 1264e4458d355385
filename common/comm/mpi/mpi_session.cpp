#include "common/comm/mpi_session.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <exception>
#include <string>
#include <thread>

#include "common/base/error.hpp"
#include "common/comm/communicator.hpp"
#include "common/comm/local_host.hpp"
#include "common/comm/mpi/mpi_calls.hpp"

namespace zeroproof {

namespace {

/// Longer than the time of mpirun between SIGTERM and SIGKILL, so that it never hides a message.
constexpr unsigned seconds_after_notice = 3;

volatile std::sig_atomic_t end_requested = 0;  // a signal handler can only write this type

void die_of_sigterm(int) {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  sigaction(SIGTERM, &action, nullptr);
  raise(SIGTERM);
}

void request_end(int) {
  end_requested = 1;
  struct sigaction action {};
  action.sa_handler = die_of_sigterm;
  sigaction(SIGALRM, &action, nullptr);
  alarm(seconds_after_notice);
}

/// Notice of the launcher that a rank has died.
void on_notice(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
  if (is_mpich()) sigaction(SIGUSR1, &action, nullptr);
}

/// Every rank's host name. Gathered once, while all ranks are present: an absent rank cannot send
/// it later.
std::vector<std::string> hosts_of_all(int world_size) {
  constexpr std::size_t name_bytes = 256;
  static std::vector<char> names;  // static, since MPI may never finish with it
  static std::array<char, name_bytes> mine{};
  names.resize(name_bytes * static_cast<std::size_t>(world_size));
  const std::string host = local_host().substr(0, name_bytes - 1);
  std::copy(host.begin(), host.end(), mine.begin());
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallgather(mine.data(), name_bytes, MPI_CHAR, names.data(), name_bytes, MPI_CHAR,
                 MPI_COMM_WORLD, &request);
  const auto deadline = std::chrono::steady_clock::now() + default_comm_timeout;
  for (int done = 0; done == 0;) {
    ZP_CHECK(MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
                 std::chrono::steady_clock::now() < deadline,
             ErrorCode::timeout, "not all ranks of the MPI job started on " + host,
             "each rank sends its host name",
             "check whether every host of the job can reach the others");
    if (done == 0) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  std::vector<std::string> hosts;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(world_size); ++rank)
    hosts.emplace_back(names.data() + rank * name_bytes);
  return hosts;
}

}  // namespace

MpiProcessState& mpi_process_state() {
  static MpiProcessState state;
  return state;
}

std::mutex& mpi_mutex() {
  static std::mutex mutex;
  return mutex;
}

bool mpi_end_requested() { return end_requested != 0; }

MpiSession::MpiSession(int* argc, char*** argv, std::chrono::milliseconds end_limit)
    : exceptions_at_start_(std::uncaught_exceptions()), end_limit_(end_limit) {
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(argc, argv, MPI_THREAD_SERIALIZED, &provided);
  ZP_CHECK(provided >= MPI_THREAD_SERIALIZED, ErrorCode::unavailable,
           "this MPI library offers thread level " + std::to_string(provided),
           "collectives may be called from a thread other than main",
           "use a build with MPI_THREAD_SERIALIZED");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size_);
  mpi_process_state().hosts = hosts_of_all(world_size_);
  on_notice(request_end);
}

MpiSession::~MpiSession() {
  const bool unwinding = std::uncaught_exceptions() > exceptions_at_start_;
  const bool may_wait = !unwinding && !mpi_process_state().memory_in_use;
  if (!may_wait || !all_ranks_end()) {
    // MPI_Abort kills the other ranks within a second, and their last messages may be lost.
    const bool already_ends =
        !is_mpich() && mpi_end_requested();  // Open MPI's launcher ends the others
    if (!may_wait && !already_ends) std::this_thread::sleep_for(end_limit_ / 2);
    MPI_Abort(MPI_COMM_WORLD, exit_code_);
  }
  alarm(0);
  on_notice(SIG_DFL);
  MPI_Finalize();
}

/// A barrier that can be cancelled: at once when the end of this job was requested, and after
/// end_limit after a failure. Without a failure it waits without limit.
bool MpiSession::all_ranks_end() const {
  const auto deadline = std::chrono::steady_clock::now() + end_limit_;
  MPI_Request request = MPI_REQUEST_NULL;
  if (MPI_Ibarrier(MPI_COMM_WORLD, &request) != MPI_SUCCESS) return false;
  while (true) {
    int done = 0;
    if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
    if (done != 0) return true;
    if (mpi_end_requested()) return false;
    if (mpi_process_state().broken && std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace zeroproof
