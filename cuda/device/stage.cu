#include "cuda/device/stage.hpp"

#include <utility>

#include "common/base/error.hpp"
#include "cuda/device/cuda_call.hpp"

namespace zeroproof::cuda::device {

DeviceBuffer::DeviceBuffer(std::int64_t num_bytes) {
  void* data = nullptr;
  check_cuda(cudaMalloc(&data, static_cast<std::size_t>(num_bytes)), "allocating device memory");
  data_ = static_cast<unsigned char*>(data);
}

DeviceBuffer::~DeviceBuffer() {
  // Nothing can be thrown here; an error that lasts is reported by the next checked call.
  if (data_ != nullptr && cudaFree(data_) != cudaSuccess) static_cast<void>(cudaGetLastError());
}

unsigned char* Stage::find(const void* host) const {
  for (const Copy& copy : copies_) {
    if (copy.host == host) return copy.device;
  }
  return nullptr;
}

unsigned char* Stage::allocate(const void* host, std::int64_t num_bytes) {
  constexpr std::int64_t alignment = 16;  // cudaMalloc aligns to at least 256 bytes
  const std::int64_t offset = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(host) % alignment);
  DeviceBuffer buffer(num_bytes + offset);
  unsigned char* device = buffer.data() + offset;
  copies_.push_back({host, device, std::move(buffer)});
  return device;
}

unsigned char* Stage::upload_bytes(const void* host, std::int64_t num_bytes) {
  unsigned char* device = find(host);
  if (device != nullptr) return device;
  device = allocate(host, num_bytes);
  check_cuda(cudaMemcpy(device, host, static_cast<std::size_t>(num_bytes), cudaMemcpyHostToDevice),
             "copying to the device");
  return device;
}

unsigned char* Stage::output_bytes(const void* host, std::int64_t num_bytes) {
  unsigned char* device = find(host);
  if (device != nullptr) return device;
  device = allocate(host, num_bytes);
  check_cuda(cudaMemset(device, 0xFF, static_cast<std::size_t>(num_bytes)), "filling device memory");
  return device;
}

void Stage::download_bytes(void* host, std::int64_t num_bytes) const {
  const unsigned char* device = find(host);
  ZP_CHECK(device != nullptr, ErrorCode::internal, "a result was asked for that is not on the device",
           "there is nothing to copy", "call output() for the same span first");
  check_cuda(cudaMemcpy(host, device, static_cast<std::size_t>(num_bytes), cudaMemcpyDeviceToHost),
             "running a kernel and copying from the device");
}

}  // namespace zeroproof::cuda::device
