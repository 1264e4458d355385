// Loaded into the ranks of a job (LD_PRELOAD): one of them misbehaves. ZP_MISBEHAVE is "RANK WHAT
// WHERE [N]".
//
// WHAT   killed, stopped, exits-0, exits-3, aborts, sleeps (for a minute), slow (for 2.4 seconds), throws (its MPI says
//        no)
// WHERE  start, before MPI begins; step, before its N-th collective; collective, as its N-th block of data goes out

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <sstream>
#include <string>

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

namespace {

struct Plan {
  bool mine = false;
  std::string what, where;
  int n = 1;
};

Plan read_plan() {
  Plan plan;
  const char* text = std::getenv("ZP_MISBEHAVE");
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (rank == nullptr) rank = std::getenv("PMI_RANK");
  if (text == nullptr || rank == nullptr) return plan;
  std::string who;
  std::istringstream words(text);
  words >> who >> plan.what >> plan.where >> plan.n;
  plan.mine = who == rank;
  return plan;
}

const Plan& plan() {
  static const Plan it = read_plan();
  return it;
}

/// True if MPI must refuse the call.
bool misbehave() {
  const std::string& what = plan().what;
  if (what == "killed") ::kill(::getpid(), SIGKILL);
  if (what == "stopped") ::kill(::getpid(), SIGSTOP);
  if (what == "exits-0") ::_exit(0);
  if (what == "exits-3") ::_exit(3);
  if (what == "aborts") std::abort();
  if (what == "sleeps") ::sleep(60);
  if (what == "slow") ::usleep(2'400'000);
  return what == "throws";
}

bool is_time(const char* where) {
  static std::atomic<int> count{0};
  return plan().mine && plan().where == where && ++count == plan().n;
}

}  // namespace

extern "C" int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  if (is_time("start")) misbehave();
  return PMPI_Init_thread(argc, argv, required, provided);
}

// Each communicator has three consecutive tags: for messages about calls, for data, for the library
// (mpi_transport.cpp).
extern "C" int MPI_Isend(const void* data, int count, MPI_Datatype type, int peer, int tag,
                         MPI_Comm comm, MPI_Request* request) {
  if (is_time(tag % 3 == 0 ? "step" : "collective") && misbehave()) return MPI_ERR_OTHER;
  return PMPI_Isend(data, count, type, peer, tag, comm, request);
}
