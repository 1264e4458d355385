// Calls of a communicator, from its creation to its end.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "cuda/device/sim/capture.hpp"
#include "cuda/device/sim/current.hpp"
#include "tests/cuda/comm/nccl/fake_nccl_state.hpp"

namespace zp_fake_nccl {

namespace {

using Lock = std::unique_lock<std::mutex>;
using Life = ncclComm::Life;

/// Calls of this thread since ncclGroupStart.
struct Group {
  int depth = 0;
  std::vector<Call> calls;
};
thread_local Group group;

/// Whether the communicator can be called; reports the error otherwise.
ncclResult_t usable(ncclComm_t comm, const char* call) {
  if (comm == nullptr) return complain(nullptr, std::string(call) + " without a communicator");
  const std::string who = std::string(call) + " on rank " + std::to_string(comm->rank);
  switch (comm->life) {
    case Life::joining:
      return complain(comm, who + " before its communicator was made");
    case Life::aborted:
      return complain(comm, who + " after its communicator was aborted");
    case Life::finalized:
    case Life::destroyed:
      return complain(comm, who + " after the end of its communicator");
    case Life::alive:
      break;
  }
  return comm->in_progress ? complain(comm, who + " while another call is in progress")
                           : ncclSuccess;
}

bool captured(const Call& call) { return call.stream && call.stream->capture; }

/// Enqueues the waits of the stream when all last calls have opened, cannot open, or the patience
/// is over.
ncclResult_t advance(ncclComm& comm) {
  const bool patient = std::chrono::steady_clock::now() < comm.patient_until;
  for (const ncclComm::Given& given : comm.given) {
    if (given.in_stream || given.operation->open) continue;
    if (given.call.kind == Kind::window || (patient && !given.operation->dead)) {
      comm.in_progress = true;
      return ncclInProgress;
    }
  }
  const std::lock_guard device(zeroproof::cuda::sim::device_mutex());
  for (ncclComm::Given& given : comm.given) {
    if (!given.in_stream && given.call.stream)
      given.call.stream->push(
          {nullptr, Mark{part_of(*given.operation, given.call).gate, 1, nullptr}});
    given.in_stream = true;
  }
  comm.in_progress = false;
  return ncclSuccess;
}

bool has_ended(const ncclComm::Given& given) {
  return given.call.kind == Kind::window || part_of(*given.operation, given.call).gate->passed(1);
}

ncclResult_t give(ncclComm& comm, const std::vector<Call>& calls) {
  const Plan& plan = state().plan;
  {
    const std::lock_guard device(zeroproof::cuda::sim::device_mutex());
    std::erase_if(comm.given, has_ended);
  }
  ++comm.num_given;
  const bool stalls = plan.stall_rank == comm.rank && plan.stall_number == comm.num_given;
  const bool breaks = plan.async_rank == comm.rank && plan.async_number == comm.num_given;
  for (const Call& call : calls) comm.given.push_back({call, post(call, !stalls && !breaks)});
  if (breaks) {
    comm.async = ncclRemoteError;
    comm.last_error = "planned to break";
  }
  comm.patient_until = std::chrono::steady_clock::now() + plan.patience;
  return advance(comm);
}

/// A launch of a graph with these calls, all of one communicator, posts them again. The waits of a
/// group begin together.
void replay(ncclComm& comm, const std::vector<Call>& calls, const Queue& queue) {
  const Lock lock(state().mutex);
  const Queue waits = std::make_shared<WorkQueue>();
  if (comm.life == Life::alive) {
    const Plan& plan = state().plan;
    {
      const std::lock_guard device(zeroproof::cuda::sim::device_mutex());
      std::erase_if(comm.given, has_ended);
    }
    ++comm.num_given;
    const bool begins = plan.stall_rank != comm.rank || plan.stall_number != comm.num_given;
    for (Call call : calls) {
      call.stream = queue;
      const std::shared_ptr<Operation> operation = post(call, begins);
      comm.given.push_back({call, operation, true});
      const std::lock_guard device(zeroproof::cuda::sim::device_mutex());
      waits->push({nullptr, Mark{part_of(*operation, call).gate, 1, nullptr}});
    }
  } else {
    complain(&comm, "a graph was launched on rank " + std::to_string(comm.rank) +
                        " after the end of its communicator");
  }
  const std::lock_guard device(zeroproof::cuda::sim::device_mutex());
  queue->push({nullptr, Mark{waits, waits->end_position(), nullptr}});
}

/// Calls into a stream that is captured, all of one communicator.
ncclResult_t capture(ncclComm& comm, std::vector<Call> calls) {
  const Queue stream = calls.front().stream;
  for (Call& call : calls) {
    if (call.stream != stream) return complain(&comm, "a group was captured in several streams");
    call.stream.reset();
  }
  const std::lock_guard device(zeroproof::cuda::sim::device_mutex());
  stream->capture->push_at_launch(
      stream->branch,
      [&comm, calls = std::move(calls)](const Queue& queue) { replay(comm, calls, queue); });
  return ncclSuccess;
}

}  // namespace

bool planned_to_fail(ncclComm& comm, const std::string& call) {
  const Plan& plan = state().plan;
  const int number = ++comm.num_calls[call];
  if (plan.fail_call != call || plan.fail_rank != comm.rank || plan.fail_number != number)
    return false;
  comm.last_error = "planned to fail";
  return true;
}

/// Calls inside a group are executed at its end.
ncclResult_t take(Call call, cudaStream_t stream) {
  const Lock lock(state().mutex);
  if (const ncclResult_t wrong = usable(call.comm, name(call.kind)); wrong != ncclSuccess)
    return wrong;
  ncclComm& comm = *call.comm;
  const std::string who = std::string(name(call.kind)) + " on rank " + std::to_string(comm.rank);
  if (planned_to_fail(comm, name(call.kind))) return ncclInternalError;
  if (call.peer < 0 || call.peer >= comm.clique->num_ranks)
    return complain(&comm, who + " names rank " + std::to_string(call.peer));
  if (bytes_of(call.type) == 0) return complain(&comm, who + " has an unused type");
  if (call.kind <= Kind::recv && call.peer == comm.rank)
    return complain(&comm, who + " is a message to itself");
  if (call.count == 0) return complain(&comm, who + " moves nothing");
  if (stream != nullptr) {
    void* const handle = stream;
    call.stream = *static_cast<const Queue*>(handle);
  }
  if (group.depth == 0) return captured(call) ? capture(comm, {call}) : give(comm, {call});
  group.calls.push_back(call);
  return ncclSuccess;
}

void begin_group() { ++group.depth; }

ncclResult_t end_group() {
  const Lock lock(state().mutex);
  if (group.depth == 0) return complain(nullptr, "a group was ended without a begin");
  if (--group.depth > 0) return ncclSuccess;
  std::vector<Call> calls;
  calls.swap(group.calls);
  ncclResult_t result = ncclSuccess;
  while (!calls.empty()) {
    const ncclComm_t comm = calls.front().comm;
    std::vector<Call> of_one;
    std::copy_if(calls.begin(), calls.end(), std::back_inserter(of_one),
                 [&](const Call& c) { return c.comm == comm; });
    std::erase_if(calls, [&](const Call& c) { return c.comm == comm; });
    const ncclResult_t one =
        captured(of_one.front()) ? capture(*comm, of_one) : give(*comm, of_one);
    if (result == ncclSuccess) result = one;
  }
  return result;
}

ncclResult_t join(ncclComm_t* made, int num_ranks, const ncclUniqueId& id, int rank,
                  const ncclConfig_t* config) {
  const Lock lock(state().mutex);
  *made = nullptr;
  if (config == nullptr || config->magic != 0xcafebeef || config->blocking != 0)
    return complain(nullptr, "a blocking communicator was requested");
  auto comm = std::make_unique<ncclComm>();
  comm->rank = rank;
  comm->device = zeroproof::cuda::sim::chosen_device();
  if (planned_to_fail(*comm, "init")) return ncclInternalError;
  const auto clique =
      state().cliques.find(std::string(id.internal, strnlen(id.internal, sizeof(id.internal))));
  if (clique == state().cliques.end()) return complain(nullptr, "an unknown unique id");
  comm->clique = clique->second;
  int& ranks = comm->clique->num_ranks;
  if (ranks == 0) ranks = num_ranks;
  if (ranks != num_ranks || rank < 0 || rank >= num_ranks ||
      !comm->clique->joined.insert(rank).second)
    return complain(nullptr, "rank " + std::to_string(rank) + " of " + std::to_string(num_ranks) +
                                 " cannot join");
  *made = comm.get();
  state().comms.push_back(std::move(comm));
  return ncclInProgress;
}

ncclResult_t ask(ncclComm& comm) {
  if (comm.life == Life::joining) {
    if (static_cast<int>(comm.clique->joined.size()) < comm.clique->num_ranks)
      return ncclInProgress;
    if (const ncclResult_t judged = judge_devices(comm); judged != ncclSuccess) return judged;
    comm.life = Life::alive;
  }
  if (comm.async != ncclSuccess) return comm.async;
  return comm.in_progress ? advance(comm) : ncclSuccess;
}

ncclResult_t end(ncclComm_t comm, Life life, const char* call) {
  const Lock lock(state().mutex);
  if (comm == nullptr) return complain(nullptr, std::string(call) + " without a communicator");
  const bool again =
      comm->life >= Life::destroyed || (life == Life::finalized && comm->life != Life::alive);
  if (again) return complain(comm, std::string(call) + " after the end of its communicator");
  for (const ncclComm::Given& given : comm->given) {
    if (life == Life::aborted) abandon(*given.operation, comm->rank);
    const std::lock_guard device(zeroproof::cuda::sim::device_mutex());
    if (life != Life::aborted && !has_ended(given))
      complain(comm, std::string(call) + " on rank " + std::to_string(comm->rank) + " while " +
                         name(given.call.kind) + " is under way");
  }
  comm->in_progress = false;
  comm->life = life;
  return ncclSuccess;
}

State& state() {
  static State one;
  static std::once_flag once;
  std::call_once(once, [] {
    if (const char* plan = std::getenv("ZP_FAKE_NCCL")) one.plan = read_plan(plan);
  });
  return one;
}

ncclResult_t complain(ncclComm_t comm, const std::string& what) {
  state().complaints += what + "\n";
  if (comm != nullptr) comm->last_error = what;
  return ncclInvalidUsage;
}

}  // namespace zp_fake_nccl
