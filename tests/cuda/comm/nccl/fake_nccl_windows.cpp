// Memory and windows of the fake NCCL.

#include <algorithm>
#include <cstdint>

#include "cuda/device/runtime/runtime.hpp"
#include "tests/cuda/comm/nccl/fake_nccl_state.hpp"

using namespace zp_fake_nccl;
namespace device = zeroproof::cuda::device;
namespace sim = zeroproof::cuda::sim;

namespace {

bool allocation_planned_to_fail() {
  const std::lock_guard lock(state().mutex);
  const Plan& plan = state().plan;
  return ++state().mem_allocs == plan.fail_number && plan.fail_call == "mem_alloc";
}

/// NCCL frees memory immediately, even if streams still use it.
bool stream_is_idle() {
  const void* const stream = device::native_stream();
  const std::lock_guard lock(sim::device_mutex());
  const sim::WorkQueue& queue = **static_cast<const Queue*>(stream);
  return queue.passed(queue.end_position());
}

}  // namespace

ncclResult_t ncclMemAlloc(void** data, std::size_t size) {
  if (allocation_planned_to_fail()) return ncclUnhandledCudaError;
  constexpr std::uintptr_t alignment = NCCL_WIN_REQUIRED_ALIGNMENT;
  void* const whole = device::device_allocate(static_cast<std::int64_t>(size + alignment));
  device::wait_for_stream();
  const std::uintptr_t begin =
      (reinterpret_cast<std::uintptr_t>(whole) + alignment - 1) / alignment * alignment;
  *data = reinterpret_cast<void*>(begin);  // NOLINT(performance-no-int-to-ptr)
  const std::lock_guard lock(state().mutex);
  state().memory[*data] = {whole, size};
  return ncclSuccess;
}

ncclResult_t ncclMemFree(void* data) {
  void* whole = nullptr;
  const bool idle = stream_is_idle();
  {
    const std::lock_guard lock(state().mutex);
    if (!idle) complain(nullptr, "ncclMemFree while the stream of its rank has work");
    const auto block = state().memory.find(data);
    if (block == state().memory.end())
      return complain(nullptr, "ncclMemFree of memory that is not from ncclMemAlloc");
    for (const auto& comm : state().comms) {
      const bool alive = comm->life == ncclComm::Life::alive;
      for (const auto& window : comm->windows) {
        if (alive && window->registered && window->begin == data)
          complain(comm.get(), "a window's memory was freed");
      }
      std::erase_if(comm->windows, [&](const auto& window) { return window->begin == data; });
    }
    whole = block->second.first;
    state().memory.erase(block);
  }
  device::device_release(whole);
  return ncclSuccess;
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* data, std::size_t size,
                                    ncclWindow_t* window, int flags) {
  const std::lock_guard lock(state().mutex);
  if (comm == nullptr || comm->life != ncclComm::Life::alive || comm->in_progress)
    return complain(comm, "a window was registered with a communicator that cannot be called");
  if (planned_to_fail(*comm, name(Kind::window))) return ncclInternalError;
  const auto block = state().memory.find(data);
  if (block == state().memory.end() || size > block->second.second ||
      flags != NCCL_WIN_COLL_SYMMETRIC)
    return complain(comm,
                    "a window was registered that is not from ncclMemAlloc, or not symmetric");
  auto made = std::make_unique<Window>(Window{static_cast<const std::byte*>(data), size});
  *window = reinterpret_cast<ncclWindow_t>(made.get());
  std::erase_if(comm->windows,
                [&](const auto& one) { return one->begin == data && !one->registered; });
  comm->windows.push_back(std::move(made));
  Call call;
  call.kind = Kind::window;
  call.count = size;
  call.comm = comm;
  comm->given.push_back({call, post(call, true)});
  if (comm->given.back().operation->open) return ncclSuccess;
  comm->in_progress = true;
  return ncclInProgress;
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void* data, std::size_t size, void** handle) {
  const std::lock_guard lock(state().mutex);
  if (comm == nullptr || comm->life != ncclComm::Life::alive)
    return complain(comm, "memory was registered with a communicator that cannot be called");
  if (planned_to_fail(*comm, "register_message")) return ncclInternalError;
  const auto block = state().memory.find(data);
  if (block == state().memory.end() || size > block->second.second)
    return complain(comm, "memory was registered that is not from ncclMemAlloc");
  auto made =
      std::make_unique<Window>(Window{static_cast<const std::byte*>(data), size, true, false});
  *handle = made.get();
  std::erase_if(comm->windows,
                [&](const auto& one) { return one->begin == data && !one->registered; });
  comm->windows.push_back(std::move(made));
  return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle) {
  return ncclCommWindowDeregister(comm, static_cast<ncclWindow_t>(handle));
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  const std::lock_guard lock(state().mutex);
  if (comm == nullptr || comm->life != ncclComm::Life::alive)
    return complain(comm, "a window was deregistered from a communicator that cannot be called");
  for (const auto& one : comm->windows) {
    if (reinterpret_cast<ncclWindow_t>(one.get()) != window || !one->registered) continue;
    one->registered = false;
    return ncclSuccess;
  }
  return complain(comm, "a window was deregistered twice, or never registered");
}
