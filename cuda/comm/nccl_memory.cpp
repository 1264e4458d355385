#include "cuda/comm/nccl_memory.hpp"

#include <array>
#include <string>
#include <utility>

#include "common/base/error.hpp"
#include "cuda/comm/nccl_handle.hpp"
#include "cuda/comm/nccl_watch.hpp"

namespace zeroproof::cuda {

#ifdef ZP_NCCL_WINDOWS

bool NcclMemory::offered(const NcclLibrary& library) {
  int version = 0;
  return library.missing().empty() && library.functions().ncclGetVersion(&version) == ncclSuccess &&
         version >= NCCL_VERSION(2, 27, 0);
}

NcclMemory::NcclMemory(const NcclLibrary& library, std::int64_t num_bytes)
    : library_(library), num_bytes_(static_cast<std::size_t>(num_bytes)) {
  ZP_CHECK(num_bytes > 0, ErrorCode::invalid_argument,
           "cannot allocate NCCL memory of " + std::to_string(num_bytes) + " bytes",
           "an allocation has at least 1 byte", "pass 1 or more");
  ZP_CHECK(offered(library), ErrorCode::unavailable, library.path() + " has no windows",
           "it is NCCL " + library.version() + ", and 2.27 introduced them",
           "use ordinary device memory");
  const NcclFunctions& nccl = library.functions();
  void* data = nullptr;
  const ncclResult_t result = nccl.ncclMemAlloc(&data, num_bytes_);
  ZP_CHECK(result == ncclSuccess, ErrorCode::unavailable,
           "NCCL memory of " + std::to_string(num_bytes) + " bytes could not be allocated",
           nccl_says(nccl, result, nullptr), "free some memory, or use ordinary device memory");
  data_ = static_cast<std::byte*>(data);
}

/// A device that hangs keeps the memory.
NcclMemory::~NcclMemory() {
  const Communicator* const of =
      comm_ == nullptr && !known_to_.empty() ? known_to_.front().first : comm_;
  if (!wait_to_release(of == nullptr ? default_nccl_limit : of->time_limit())) return;
  deregister();
  static_cast<void>(library_.functions().ncclMemFree(data_));
}

void NcclMemory::register_with(Communicator& comm) {
  auto* const member = dynamic_cast<NcclMember*>(&comm);
  ZP_CHECK(member != nullptr && member->nccl_handle().alive() && comm_ == nullptr,
           ErrorCode::invalid_argument, "cannot register NCCL memory with " + comm.name(),
           "a window belongs to one working NCCL communicator",
           "deregister it first, and pass a communicator of make_nccl_communicator");
  ncclWindow_t window = nullptr;
  member->settle(
      library_.functions().ncclCommWindowRegister(member->nccl_handle().comm(), data_, num_bytes_,
                                                  &window, NCCL_WIN_COLL_SYMMETRIC),
      "the registration of a window");
  comm_ = &comm;
  window_ = window;
}

void NcclMemory::also_for(Communicator& comm) {
  auto* const member = dynamic_cast<NcclMember*>(&comm);
  if (member == nullptr) return;
  void* handle = nullptr;
  member->settle(library_.functions().ncclCommRegister(member->nccl_handle().comm(), data_,
                                                       num_bytes_, &handle),
                 "the registration of message memory");
  known_to_.emplace_back(&comm, handle);
}

void NcclMemory::deregister() noexcept {
  for (const auto& [comm, handle] : std::exchange(known_to_, {})) {
    auto* const member = dynamic_cast<NcclMember*>(comm);
    if (member == nullptr || !member->nccl_handle().alive() || handle == nullptr) continue;
    static_cast<void>(
        library_.functions().ncclCommDeregister(member->nccl_handle().comm(), handle));
  }
  if (comm_ == nullptr) return;
  auto* const member = dynamic_cast<NcclMember*>(std::exchange(comm_, nullptr));
  if (member == nullptr || !member->nccl_handle().alive() || window_ == nullptr) return;
  const auto window = static_cast<ncclWindow_t>(std::exchange(window_, nullptr));
  static_cast<void>(
      library_.functions().ncclCommWindowDeregister(member->nccl_handle().comm(), window));
}

#else

bool NcclMemory::offered(const NcclLibrary&) { return false; }

NcclMemory::NcclMemory(const NcclLibrary& library, std::int64_t)
    : library_(library), num_bytes_(0) {
  fail(ErrorCode::unavailable, "no memory with a window in this program",
       "it was built for an NCCL without windows",
       "build it with nccl.h of 2.27 or later, or use ordinary device memory");
}

NcclMemory::~NcclMemory() { deregister(); }
void NcclMemory::register_with(Communicator&) {}
void NcclMemory::also_for(Communicator&) {}
void NcclMemory::deregister() noexcept {
  static_cast<void>(library_);
  comm_ = nullptr;
  window_ = nullptr;
}

#endif

std::unique_ptr<NcclMemory> make_nccl_memory(Communicator& comm, Communicator& control,
                                             const NcclLibrary& library, std::int64_t num_bytes) {
  std::unique_ptr<NcclMemory> memory;
  if (NcclMemory::offered(library)) memory = std::make_unique<NcclMemory>(library, num_bytes);
  const auto mine = static_cast<std::uint64_t>(memory ? num_bytes : 0);
  std::array<std::uint64_t, 2> most = {mine, ~mine};
  control.all_reduce(most, IntegerReduce::max);
  const std::uint64_t longest = most[0], shortest = ~most[1];
  if (shortest == 0) return nullptr;
  ZP_CHECK(shortest == longest, ErrorCode::invalid_argument,
           "windows of " + std::to_string(shortest) + " to " + std::to_string(longest) +
               " bytes on the ranks of " + comm.name(),
           "a window has the same size on all ranks", "use the same setup on every rank");
  memory->register_with(comm);
  return memory;
}

std::unique_ptr<NcclMemory> make_message_memory(Communicator& comm, const NcclLibrary& library,
                                                std::int64_t num_bytes) {
  if (!NcclMemory::offered(library)) return nullptr;
  auto memory = std::make_unique<NcclMemory>(library, num_bytes);
  memory->also_for(comm);
  return memory;
}

}  // namespace zeroproof::cuda
