#include <string>

#include "common/base/error.hpp"
#include "cuda/device/runtime/calls.hpp"
#include "cuda/device/runtime/cuda_call.hpp"

namespace zeroproof::cuda::device {

namespace {

std::size_t size(std::int64_t num_bytes) { return static_cast<std::size_t>(num_bytes); }

void enqueue_copy(void* target, const void* source, std::int64_t num_bytes, cudaMemcpyKind kind,
                  const char* what) {
  if (num_bytes == 0) return;
  check_cuda(cudaMemcpyAsync(target, source, size(num_bytes), kind, current_cuda_stream()), what);
  ++counted_calls().copies;
}

cudaPointerAttributes attributes_of(const void* data) {
  cudaPointerAttributes attributes{};
  check_cuda(cudaPointerGetAttributes(&attributes, data), "getting the location of memory");
  return attributes;
}

/// CUDA would accept pageable memory too, and wait.
void require_pinned(const void* host) {
  ZP_CHECK(attributes_of(host).type == cudaMemoryTypeHost, ErrorCode::invalid_argument,
           "an asynchronous copy got host memory that is not pinned" + in_named_step(),
           "the copy would block, or read memory after a change",
           "allocate it with pinned_allocate");
}

}  // namespace

void* device_allocate(std::int64_t num_bytes) {
  require_allocation(num_bytes);
  if (capturing()) refuse_in_capture("an allocation of device memory");
  void* data = nullptr;
  const std::string what = "allocating " + std::to_string(num_bytes) + " bytes of device memory";
  check_cuda(cudaMallocAsync(&data, size(num_bytes), current_cuda_stream()), what.c_str());
  ++counted_calls().allocations;
  return data;
}

void device_release(void* data) noexcept {
  if (data != nullptr && cudaFreeAsync(data, current_cuda_stream()) != cudaSuccess)
    static_cast<void>(cudaGetLastError());
}

void* pinned_allocate(std::int64_t num_bytes) {
  require_allocation(num_bytes);
  if (capturing()) refuse_in_capture("an allocation of pinned memory");
  void* data = nullptr;
  const std::string what = "allocating " + std::to_string(num_bytes) + " bytes of pinned memory";
  check_cuda(cudaHostAlloc(&data, size(num_bytes), cudaHostAllocPortable), what.c_str());
  ++counted_calls().allocations;
  return data;
}

void pinned_release(void* data) noexcept {
  if (data != nullptr && cudaFreeHost(data) != cudaSuccess) static_cast<void>(cudaGetLastError());
}

namespace {

void advise(void* data, std::int64_t num_bytes, cudaMemoryAdvise advice, bool host) {
  int device = 0;
  check_cuda(cudaGetDevice(&device), "getting the current device");
#if CUDART_VERSION >= 13000
  cudaMemLocation place{};
  place.type = host ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice;
  place.id = host ? 0 : device;
#else
  const int place = host ? cudaCpuDeviceId : device;
#endif
  check_cuda(cudaMemAdvise(data, size(num_bytes), advice, place),
             "setting the preferred location of shared memory");
}

}  // namespace

void* shared_allocate(std::int64_t num_bytes) {
  require_allocation(num_bytes);
  if (capturing()) refuse_in_capture("an allocation of shared memory");
  int device = 0, concurrent = 0;
  check_cuda(cudaGetDevice(&device), "getting the current device");
  check_cuda(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, device),
             "checking whether host and device share addresses");
  ZP_CHECK(concurrent != 0, ErrorCode::unavailable,
           "cannot allocate memory shared by host and device" + in_named_step(),
           "the device does not support concurrent managed access",
           "do not offload gradients (Offload::grads)");
  void* data = nullptr;
  const std::string what = "allocating " + std::to_string(num_bytes) + " bytes of shared memory";
  check_cuda(cudaMallocManaged(&data, size(num_bytes)), what.c_str());
  ++counted_calls().allocations;
  advise(data, num_bytes, cudaMemAdviseSetPreferredLocation, false);
  return data;
}

void keep_on_host(void* data, std::int64_t num_bytes) {
  advise(data, num_bytes, cudaMemAdviseSetPreferredLocation, true);
  advise(data, num_bytes, cudaMemAdviseSetAccessedBy,
         false);  // the device accesses the host's pages; nothing migrates
}

void shared_release(void* data) noexcept {
  if (data != nullptr && cudaFree(data) != cudaSuccess) static_cast<void>(cudaGetLastError());
}

void enqueue_to_device(void* device, const void* pinned, std::int64_t num_bytes) {
  require_copy(num_bytes);
  if (num_bytes > 0) require_pinned(pinned);
  enqueue_copy(device, pinned, num_bytes, cudaMemcpyHostToDevice, "copying to the device");
}

void enqueue_to_host(void* pinned, const void* device, std::int64_t num_bytes) {
  require_copy(num_bytes);
  if (num_bytes > 0) require_pinned(pinned);
  enqueue_copy(pinned, device, num_bytes, cudaMemcpyDeviceToHost, "copying from the device");
}

void enqueue_on_device(void* target, const void* source, std::int64_t num_bytes) {
  require_copy(num_bytes);
  enqueue_copy(target, source, num_bytes, cudaMemcpyDeviceToDevice, "copying on the device");
}

void enqueue_fill(void* device, unsigned char byte, std::int64_t num_bytes) {
  require_copy(num_bytes);
  if (num_bytes == 0) return;
  check_cuda(cudaMemsetAsync(device, byte, size(num_bytes), current_cuda_stream()),
             "filling device memory");
  ++counted_calls().copies;
}

bool is_on_device(const void* data) {
  const cudaPointerAttributes attributes = attributes_of(data);
  if (attributes.type == cudaMemoryTypeManaged) return true;
  int device = 0;
  check_cuda(cudaGetDevice(&device), "getting the current device");
  return attributes.type == cudaMemoryTypeDevice && attributes.device == device;
}

bool is_on_host(const void* data) { return attributes_of(data).type != cudaMemoryTypeDevice; }

}  // namespace zeroproof::cuda::device
