// Replaces nccl_*.cpp in a program built without nccl.h, except for nccl_watch, nccl_calls and
// nccl_cause.

#include "common/base/error.hpp"
#include "cuda/comm/nccl_communicator.hpp"
#include "cuda/comm/nccl_memory.hpp"

namespace zeroproof::cuda {

struct NcclFunctions {};

namespace {

[[noreturn]] void no_nccl() {
  fail(ErrorCode::unavailable, "no NCCL transport in this program", "it was built without nccl.h",
       "build it with ZP_NCCL=ON, or use another transport");
}

}  // namespace

NcclLibrary::NcclLibrary(const std::string&) { no_nccl(); }
NcclLibrary::~NcclLibrary() = default;
std::unique_ptr<NcclLibrary> find_nccl() { no_nccl(); }
const NcclLibrary& shared_nccl() { no_nccl(); }
std::string describe_nccl() { return "no NCCL: this program was built without nccl.h"; }

std::unique_ptr<Communicator> make_nccl_communicator(Communicator&, const NcclLibrary&,
                                                     std::chrono::milliseconds) {
  no_nccl();
}

bool NcclMemory::offered(const NcclLibrary&) { return false; }
NcclMemory::NcclMemory(const NcclLibrary& library, std::int64_t)
    : library_(library), num_bytes_(0) {
  no_nccl();
}
NcclMemory::~NcclMemory() { deregister(); }
void NcclMemory::register_with(Communicator&) { no_nccl(); }
void NcclMemory::also_for(Communicator&) { no_nccl(); }
void NcclMemory::deregister() noexcept {
  static_cast<void>(library_);
  comm_ = nullptr;
  window_ = nullptr;
}

}  // namespace zeroproof::cuda
