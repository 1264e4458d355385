#pragma once
// MPI's own objects behind MpiNative (internal to the MPI communicator).

#include <condition_variable>
#include <mutex>
#include <thread>

#include "common/comm/mpi/mpi_calls.hpp"
#include "common/comm/mpi/mpi_native.hpp"

namespace zeroproof {

struct MpiNative::Handles {
  MPI_Comm all = MPI_COMM_NULL;   // the same ranks in the same order
  MPI_Comm node = MPI_COMM_NULL;  // those of them on this machine; made when first needed
};

/// While it lives, this thread is inside MPI: it holds the lock of all MPI calls, and the process ends if that
/// takes too long.
class BlockingCall {
 public:
  explicit BlockingCall(const BlockingLimit& limit);
  ~BlockingCall();
  BlockingCall(const BlockingCall&) = delete;
  BlockingCall& operator=(const BlockingCall&) = delete;

 private:
  void watch();

  const BlockingLimit limit_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;
  std::thread watch_;
  std::unique_lock<std::mutex> mpi_;
};

}  // namespace zeroproof
