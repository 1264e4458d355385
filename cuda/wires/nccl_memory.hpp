#pragma once
// Device memory that NCCL can reach on all ranks without copies of its own. This header needs neither nccl.h nor CUDA.

#include <cstddef>
#include <cstdint>

#include "common/base/span.hpp"
#include "common/comm/communicator.hpp"
#include "cuda/wires/nccl_library.hpp"
#include "cuda/wires/nccl_watch.hpp"

namespace zeroproof::cuda {

/// A block of such memory, and its window in one communicator at a time. Not enqueued: the block is there at once, and
/// nothing that is enqueued may still use it when its window or itself goes.
class NcclMemory {
 public:
  /// Whether a library has what this needs.
  static bool offered(const NcclLibrary& library);

  /// Content undefined. num_bytes > 0. The library outlives this.
  /// Errors: unavailable if the library does not offer it, or the device has not so much.
  NcclMemory(const NcclLibrary& library, std::int64_t num_bytes);
  ~NcclMemory();
  NcclMemory(const NcclMemory&) = delete;
  NcclMemory& operator=(const NcclMemory&) = delete;

  Span<std::byte> bytes() const { return {data_, num_bytes_}; }

  /// Collective over comm, of make_nccl_communicator: every rank registers a block as long as this one. comm outlives
  /// the window. Errors: invalid_argument if comm is none of NCCL's, or the block is registered; comm if NCCL refuses.
  void register_with(Communicator& comm, std::chrono::milliseconds limit = default_nccl_limit);

  /// Not collective. Nothing happens if it is not registered, or its communicator is broken.
  void deregister() noexcept;

 private:
  const NcclLibrary& library_;
  std::byte* data_ = nullptr;
  std::size_t num_bytes_;
  Communicator* comm_ = nullptr;  // that it is registered with
  void* window_ = nullptr;        // an ncclWindow_t
};

}  // namespace zeroproof::cuda
