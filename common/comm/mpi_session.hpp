#pragma once
// Lifetime of MPI in this process.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace zeroproof {

/// Starts MPI when made and ends it when destroyed; make one in main, before any other MPI object.
///
/// Destroyed during stack unwinding, or after a communicator failed and not all ranks reach their
/// end within end_limit, it calls MPI_Abort, since MPI_Finalize would wait forever for a lost
/// rank.
///
/// mpirun answers the death of a rank with a notice to all others: Open MPI's with SIGTERM (after 1 s) and SIGKILL a
/// while later (1 s), MPICH's with SIGUSR1 (with -disable-auto-cleanup; without, it kills them at once). The session
/// takes the notice as a request: a waiting collective then fails with an Error that names the
/// missing ranks. A process that computes on dies of SIGTERM after 3 s.
class MpiSession {
 public:
  explicit MpiSession(int* argc = nullptr, char*** argv = nullptr,
                      std::chrono::milliseconds end_limit = std::chrono::milliseconds(2000));
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }

  /// Exit code of mpirun if this session has to call MPI_Abort. 1 unless set.
  void set_exit_code(int code) { exit_code_ = code; }

 private:
  bool all_ranks_end() const;

  int rank_ = 0;
  int world_size_ = 1;
  int exit_code_ = 1;
  int exceptions_at_start_ = 0;
  std::chrono::milliseconds end_limit_;
};

/// State shared by the communicators and the session of a process.
struct MpiProcessState {
  std::atomic<bool> broken = false;  ///< a communicator failed: ranks may be missing at the end
  /// MPI may still write into buffers of a call that failed: only MPI_Abort may be called.
  std::atomic<bool> memory_in_use = false;
  std::atomic<int> channels = 0;  ///< communicators of the world made so far; the same on all ranks
  std::atomic<std::int64_t> group_tickets = 0;  ///< groups made so far; differs between ranks
  std::vector<std::string> hosts;               ///< [world_size] where each rank runs
};

MpiProcessState& mpi_process_state();

/// Held around every MPI call: the library is initialized with MPI_THREAD_SERIALIZED, one thread at
/// a time. Nearly all calls return at once, so threads that use different communicators share it
/// well.
std::mutex& mpi_mutex();

/// True once the launcher requested the end of this process.
bool mpi_end_requested();

}  // namespace zeroproof
