#include "common/comm/mpi_session.hpp"

// The C interface is all that is used; the old C++ one would need a library of its own.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#include <signal.h>
#include <unistd.h>

#include <csignal>
#include <exception>
#include <string>
#include <thread>

#include "common/base/error.hpp"

namespace zeroproof {

namespace {

/// Longer than mpirun's way from SIGTERM to SIGKILL, so that it never hides a message.
constexpr unsigned seconds_after_sigterm = 3;

volatile std::sig_atomic_t end_requested = 0;  // a signal handler has no other place

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
  alarm(seconds_after_sigterm);
}

void set_sigterm(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
}

}  // namespace

MpiProcessState& mpi_process_state() {
  static MpiProcessState state;
  return state;
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
  set_sigterm(request_end);
}

MpiSession::~MpiSession() {
  const bool unwinding = std::uncaught_exceptions() > exceptions_at_start_;
  const bool may_wait = !unwinding && !mpi_process_state().memory_in_use;
  if (!may_wait || !all_ranks_end()) {
    // MPI_Abort kills the other ranks within a second, and what they still have to say may be lost.
    if (!may_wait && !mpi_end_requested()) std::this_thread::sleep_for(end_limit_ / 2);
    MPI_Abort(MPI_COMM_WORLD, exit_code_);
  }
  alarm(0);
  set_sigterm(SIG_DFL);
  MPI_Finalize();
}

/// A barrier that can be given up: at once when this job was told to end, and after end_limit if something
/// broke. Ranks where all is well wait as long as it takes.
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
