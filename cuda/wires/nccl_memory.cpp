#include "cuda/wires/nccl_memory.hpp"

#include <string>
#include <utility>

#include "common/base/error.hpp"
#include "cuda/wires/nccl_handle.hpp"

namespace zeroproof::cuda {

#ifdef ZP_NCCL_WINDOWS

bool NcclMemory::offered(const NcclLibrary& library) { return library.missing().empty(); }

NcclMemory::NcclMemory(const NcclLibrary& library, std::int64_t num_bytes)
    : library_(library), num_bytes_(static_cast<std::size_t>(num_bytes)) {
  ZP_CHECK(num_bytes > 0, ErrorCode::invalid_argument,
           "NCCL memory of " + std::to_string(num_bytes) + " bytes was asked for",
           "there is no memory of that size", "ask for 1 byte or more");
  ZP_CHECK(offered(library), ErrorCode::unavailable, library.path() + " has no windows",
           "it is NCCL " + library.version() + ", and they came with 2.27", "use ordinary device memory");
  const NcclFunctions& nccl = library.functions();
  void* data = nullptr;
  const ncclResult_t result = nccl.ncclMemAlloc(&data, num_bytes_);
  ZP_CHECK(result == ncclSuccess, ErrorCode::unavailable,
           "NCCL memory of " + std::to_string(num_bytes) + " bytes could not be allocated",
           nccl_says(nccl, result, nullptr), "free some, or use ordinary device memory");
  data_ = static_cast<std::byte*>(data);
}

NcclMemory::~NcclMemory() {
  deregister();
  if (data_ != nullptr) static_cast<void>(library_.functions().ncclMemFree(data_));
}

void NcclMemory::register_with(Communicator& comm, std::chrono::milliseconds limit) {
  auto* const member = dynamic_cast<NcclMember*>(&comm);
  ZP_CHECK(member != nullptr && member->nccl_handle().alive() && comm_ == nullptr,
           ErrorCode::invalid_argument, "NCCL memory was to be registered with " + comm.name(),
           "a window belongs to one communicator of NCCL's that works",
           "deregister it first, and pass what make_nccl_communicator returned");
  NcclHandle& handle = member->nccl_handle();
  ncclWindow_t window = nullptr;
  const ncclResult_t result = library_.functions().ncclCommWindowRegister(handle.comm(), data_, num_bytes_,
                                                                          &window, NCCL_WIN_COLL_SYMMETRIC);
  if (!handle.settle(result, "the registration of a window", limit)) {
    comm.abort("a window was not registered by all ranks in time");
    fail(ErrorCode::timeout, "a window was not registered with " + comm.name() + " by all ranks in time",
         "registering is collective", "register the same blocks in the same order on every rank");
  }
  comm_ = &comm;
  window_ = window;
}

void NcclMemory::deregister() noexcept {
  if (comm_ == nullptr) return;
  auto* const member = dynamic_cast<NcclMember*>(std::exchange(comm_, nullptr));
  if (member == nullptr || !member->nccl_handle().alive() || window_ == nullptr) return;
  const auto window = static_cast<ncclWindow_t>(std::exchange(window_, nullptr));
  static_cast<void>(library_.functions().ncclCommWindowDeregister(member->nccl_handle().comm(), window));
}

#else

bool NcclMemory::offered(const NcclLibrary&) { return false; }

NcclMemory::NcclMemory(const NcclLibrary& library, std::int64_t) : library_(library), num_bytes_(0) {
  fail(ErrorCode::unavailable, "memory with a window was asked for",
       "this program was built for an NCCL without them",
       "build it with nccl.h of 2.27 or later, or use ordinary device memory");
}

NcclMemory::~NcclMemory() { deregister(); }
void NcclMemory::register_with(Communicator&, std::chrono::milliseconds) {}
void NcclMemory::deregister() noexcept {
  static_cast<void>(library_);
  comm_ = nullptr;
  window_ = nullptr;
}

#endif

}  // namespace zeroproof::cuda
