// The functions of NCCL, for ranks that are threads of one process and streams of the simulated
// device. fake_nccl_state.hpp describes how calls become work. The simulated device is that of the
// loading program.

#include <cstring>

#include "tests/cuda/comm/nccl/fake_nccl.hpp"
#include "tests/cuda/comm/nccl/fake_nccl_state.hpp"

using namespace zp_fake_nccl;

void zp_fake_nccl_plan(const char* plan) {
  const std::lock_guard lock(state().mutex);
  state().plan = read_plan(plan);
  state().mem_allocs = 0;
}

const char* zp_fake_nccl_complaints() {
  static std::string reported;
  const std::lock_guard lock(state().mutex);
  reported = std::exchange(state().complaints, "");
  return reported.c_str();
}

long long zp_fake_nccl_received_in_windows() {
  const std::lock_guard lock(state().mutex);
  return state().received_in_windows;
}

long long zp_fake_nccl_received_in_messages() {
  const std::lock_guard lock(state().mutex);
  return state().received_in_messages;
}

long long zp_fake_nccl_windows() {
  const std::lock_guard lock(state().mutex);
  long long registered = 0;
  for (const auto& comm : state().comms) {
    if (comm->life != ncclComm::Life::alive) continue;
    for (const auto& window : comm->windows) registered += window->registered ? 1 : 0;
  }
  return registered;
}

ncclResult_t ncclGetVersion(int* version) {
  const std::lock_guard lock(state().mutex);
  *version = state().plan.version;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::lock_guard lock(state().mutex);
  const std::string text = "clique " + std::to_string(state().cliques.size());
  std::memset(id->internal, 0, sizeof(id->internal));
  std::memcpy(id->internal, text.data(), text.size());
  state().cliques[text] = std::make_shared<Clique>();
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  constexpr const char* texts[] = {
      "no error",         "unhandled cuda error", "unhandled system error", "internal error",
      "invalid argument", "invalid usage",        "remote error",           "in progress"};
  return result >= 0 && result < ncclNumResults ? texts[result] : "unknown result code";
}

const char* ncclGetLastError(ncclComm_t comm) {
  const std::lock_guard lock(state().mutex);
  return comm == nullptr ? "" : comm->last_error.c_str();
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  return join(comm, nranks, id, rank, config);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  const std::lock_guard lock(state().mutex);
  if (comm == nullptr || comm->life >= ncclComm::Life::destroyed)
    return complain(comm, "ncclCommGetAsyncError after the end of its communicator");
  *error = ask(*comm);
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return end(comm, ncclComm::Life::finalized, "ncclCommFinalize");
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return end(comm, ncclComm::Life::destroyed, "ncclCommDestroy");
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return end(comm, ncclComm::Life::aborted, "ncclCommAbort");
}

ncclResult_t ncclGroupStart() {
  begin_group();
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() { return end_group(); }

ncclResult_t ncclSend(const void* data, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return take({Kind::send, data, nullptr, count, type, ncclSum, peer, comm}, stream);
}
ncclResult_t ncclRecv(void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return take({Kind::recv, nullptr, data, count, type, ncclSum, peer, comm}, stream);
}
ncclResult_t ncclAllGather(const void* send, void* recv, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return take({Kind::all_gather, send, recv, count, type, ncclSum, 0, comm}, stream);
}
ncclResult_t ncclBroadcast(const void* send, void* recv, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return take({Kind::broadcast, send, recv, count, type, ncclSum, root, comm}, stream);
}
ncclResult_t ncclAllReduce(const void* send, void* recv, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return take({Kind::all_reduce, send, recv, count, type, op, 0, comm}, stream);
}
ncclResult_t ncclReduceScatter(const void* send, void* recv, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return take({Kind::reduce_scatter, send, recv, count, type, op, 0, comm}, stream);
}
ncclResult_t ncclReduce(const void* send, void* recv, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return take({Kind::reduce, send, recv, count, type, op, root, comm}, stream);
}
