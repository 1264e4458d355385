#pragma once
// The state of the fake NCCL, under one lock. The lock of the simulated device may be taken while
// it is held, never the reverse: work on the device takes no lock of the fake.
//
// NCCL enqueues a kernel that waits on the device for the kernels of other ranks. Here a call is
// posted on the host and finds or creates its operation. The stream of the rank gets a wait for a
// gate. When all ranks of the operation have posted, it gets its own queue: waits for the work of
// their streams before their calls, then the copies of all ranks; and the gates get a wait for that
// queue. So the simulated device reaches one rank's work from another rank's wait, in either order
// of streams, and no host thread waits for another one.
//
// A closed gate is an empty queue. Polls of an event leave it (run_one finds nothing), but a wait
// that only the device can end would have nothing to run. So calls are ncclInProgress until all
// ranks have posted, and the stream gets its wait only then, or when the plan's patience is over:
// tests that set a patience poll events and never wait for streams while ranks are missing.

#include <nccl.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cuda/device/sim/work_queue.hpp"
#include "tests/cuda/comm/nccl/fake_nccl_plan.hpp"

namespace zp_fake_nccl {

using zeroproof::cuda::sim::Mark;
using zeroproof::cuda::sim::WorkQueue;
using Queue = std::shared_ptr<WorkQueue>;

enum class Kind : std::uint8_t {
  send,
  recv,
  all_gather,
  broadcast,
  all_reduce,
  reduce_scatter,
  reduce,
  window
};
const char* name(Kind kind);

struct Call {
  Kind kind = Kind::send;
  const void* send = nullptr;
  void* recv = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclUint8;
  ncclRedOp_t op = ncclSum;
  int peer = 0;  ///< or root
  ncclComm_t comm = nullptr;
  Queue stream = nullptr;
};

std::size_t bytes_of(ncclDataType_t type);

/// A common operation of several ranks.
struct Operation {
  struct Part {
    Call call;
    Mark ready;
    Queue gate = std::make_shared<WorkQueue>();
    bool posted = false;
  };
  std::vector<Part> parts;  ///< of all ranks; for a message the sender's and the receiver's
  std::size_t num_posted = 0;
  bool open = false;  ///< the gates are, or will be
  bool dead = false;  ///< they never will be
  Queue work = std::make_shared<WorkQueue>();
};

/// The ranks of one unique id.
struct Clique {
  int num_ranks = 0;
  std::set<int> joined;
  std::map<std::int64_t, std::shared_ptr<Operation>> collectives;  // by number
  /// Messages by sender, receiver and number.
  std::map<std::pair<int, int>, std::map<std::int64_t, std::shared_ptr<Operation>>> messages;
};

/// A range of memory that is registered with a communicator: by all ranks, or by one for its
/// messages.
struct Window {
  const std::byte* begin;
  std::size_t size;
  bool registered = true;
  bool symmetric = true;
};

struct State {
  std::mutex mutex;
  Plan plan;
  std::string complaints;
  int mem_allocs = 0;  ///< since the plan was made
  long long received_in_windows = 0;
  long long received_in_messages = 0;
  std::map<std::string, std::shared_ptr<Clique>> cliques;  // by id
  std::map<void*, std::pair<void*, std::size_t>> memory;   // of ncclMemAlloc: addresses and sizes
  std::vector<std::unique_ptr<ncclComm>> comms;            // including destroyed ones
};
State& state();

/// All below: with the lock.
ncclResult_t complain(ncclComm_t comm, const std::string& what);
/// Counts a call of this name.
bool planned_to_fail(ncclComm& comm, const std::string& call);

/// Whether the ranks of a complete communicator may share devices as they do. In progress for ranks
/// that may, if others may not.
ncclResult_t judge_devices(ncclComm& comm);

/// Makes the call a part of its operation, which never begins if one part does not.
std::shared_ptr<Operation> post(const Call& call, bool begins);
/// Ends the rank's part without any effect.
void abandon(Operation& operation, int rank);
/// The part of a rank in an operation.
Operation::Part& part_of(Operation& operation, const Call& call);

/// Puts the work of a complete operation into its queue.
void enqueue_work(Operation& operation);

}  // namespace zp_fake_nccl

/// nccl.h only declares this name. They live until the process ends, so that use after the end is
/// detected.
struct ncclComm {
  std::shared_ptr<zp_fake_nccl::Clique> clique;
  int rank = 0;
  int device = 0;
  enum class Life : std::uint8_t {
    joining,
    alive,
    finalized,
    destroyed,
    aborted
  } life = Life::joining;
  ncclResult_t async = ncclSuccess;
  std::string last_error;
  std::int64_t num_collectives = 0, num_given = 0;
  std::map<std::string, int> num_calls;
  std::map<std::pair<int, int>, std::int64_t> num_messages;
  struct Given {
    zp_fake_nccl::Call call;
    std::shared_ptr<zp_fake_nccl::Operation> operation;
    bool in_stream = false;
  };
  std::vector<Given> given;
  bool in_progress = false;
  std::chrono::steady_clock::time_point patient_until;
  std::vector<std::unique_ptr<zp_fake_nccl::Window>> windows;
};

namespace zp_fake_nccl {

/// Without the lock: implementations of the functions of nccl.h, named like these or like the kind
/// of the call.
ncclResult_t take(Call call, cudaStream_t stream);
void begin_group();
ncclResult_t end_group();
ncclResult_t join(ncclComm_t* made, int num_ranks, const ncclUniqueId& id, int rank,
                  const ncclConfig_t* config);
ncclResult_t end(ncclComm_t comm, ncclComm::Life life, const char* call);

/// With the lock: the asynchronous error.
ncclResult_t ask(ncclComm& comm);

}  // namespace zp_fake_nccl
