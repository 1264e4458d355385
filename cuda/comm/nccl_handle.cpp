#include "cuda/comm/nccl_handle.hpp"

#include <thread>
#include <utility>

#include "common/base/error.hpp"

namespace zeroproof::cuda {

namespace {

constexpr const char* remedy =
    "run it again with NCCL_DEBUG=WARN and check the output of NCCL on every rank";
constexpr std::chrono::microseconds pause{50};

/// Whether another machine, or the same one in another state, would avoid the error. Of the errors
/// at joining, NCCL reports only two ranks on one device as an invalid usage.
bool machine_is_to_blame(ncclResult_t result) {
  return result == ncclUnhandledCudaError || result == ncclSystemError ||
         result == ncclInvalidUsage;
}

const char* remedy_of(ncclResult_t result) {
  if (result == ncclInvalidUsage)
    return "use one device per rank, or --transport copies with ranks that are "
           "threads, or set "
           "NCCL_MULTI_RANK_GPU_ENABLE=1 for NCCL 2.30 or later";
  return machine_is_to_blame(result)
             ? "use a device with a working driver on every rank, or another transport"
             : remedy;
}

}  // namespace

std::string nccl_says(const NcclFunctions& nccl, ncclResult_t result, ncclComm_t comm) {
  std::string text = "NCCL says: " + std::string(nccl.ncclGetErrorString(result));
  const char* const details = nccl.ncclGetLastError(comm);
  if (details == nullptr || *details == 0) return text;
  std::string line = details;  // one line of the error's sentence
  for (char& letter : line) {
    if (letter == '\n') letter = ' ';
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return text + ": " + line;
}

NcclHandle::NcclHandle(const NcclFunctions& nccl, std::string name)
    : nccl_(nccl), name_(std::move(name)) {}

bool NcclHandle::connect(int world_size, int rank, const ncclUniqueId& id, Limit limit) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const ncclResult_t begun = nccl_.ncclCommInitRankConfig(&comm_, world_size, id, rank, &config);
  const ncclResult_t result = comm_ == nullptr ? begun : wait(begun, limit);
  if (result == ncclInProgress) return false;
  ZP_CHECK(result == ncclSuccess && comm_ != nullptr,
           machine_is_to_blame(result) ? ErrorCode::unavailable : ErrorCode::comm,
           "rank " + std::to_string(rank) + " could not join " + name_,
           nccl_says(nccl_, result, comm_), remedy_of(result));
  return true;
}

ncclResult_t NcclHandle::wait(ncclResult_t result, Limit limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (result == ncclInProgress) {
    const ncclResult_t status = nccl_.ncclCommGetAsyncError(comm_, &result);
    if (status != ncclSuccess) return status;
    if (result != ncclInProgress || std::chrono::steady_clock::now() >= end) break;
    std::this_thread::sleep_for(pause);
  }
  return result;
}

bool NcclHandle::settle(ncclResult_t result, const std::string& what, Limit limit) {
  result = wait(result, limit);
  if (result == ncclInProgress) return false;
  ZP_CHECK(result == ncclSuccess, ErrorCode::comm, what + " failed on " + name_,
           nccl_says(nccl_, result, comm_), remedy);
  return true;
}

void NcclHandle::poll(const std::string& during) {
  if (comm_ == nullptr) return;
  ncclResult_t error = ncclSuccess;
  const ncclResult_t status = nccl_.ncclCommGetAsyncError(comm_, &error);
  if (status != ncclSuccess) error = status;
  if (error == ncclSuccess || error == ncclInProgress) return;
  fail(ErrorCode::comm, name_ + " broke in or before " + during, nccl_says(nccl_, error, comm_),
       remedy);
}

/// Whatever the result, the communicator cannot be used any more.
void NcclHandle::abort() noexcept {
  if (comm_ != nullptr) static_cast<void>(nccl_.ncclCommAbort(std::exchange(comm_, nullptr)));
}

bool NcclHandle::close(Limit limit) noexcept {
  if (comm_ == nullptr) return true;
  if (wait(nccl_.ncclCommFinalize(comm_), limit) != ncclSuccess) {
    abort();
    return false;
  }
  static_cast<void>(nccl_.ncclCommDestroy(std::exchange(comm_, nullptr)));
  return true;
}

}  // namespace zeroproof::cuda
