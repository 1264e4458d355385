#pragma once
// Device memory that NCCL can access on all ranks without intermediate copies. This header needs
// neither nccl.h nor CUDA.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/span.hpp"
#include "common/comm/communicator.hpp"
#include "cuda/comm/exchange/registered_buffer.hpp"
#include "cuda/comm/nccl_library.hpp"

namespace zeroproof::cuda {

/// A block of such memory, and its window in one communicator at a time. Not enqueued: the block
/// exists immediately, and no enqueued work may still use its window when the window is
/// deregistered. On a machine where NCCL does not use windows the block is ordinary memory.
class NcclMemory final : public RegisteredBuffer {
 public:
  /// Whether a library supports such memory.
  static bool offered(const NcclLibrary& library);

  /// Content undefined. num_bytes > 0. The library must outlive this. Errors: unavailable if the
  /// library does not support it, or the device has too little free memory.
  NcclMemory(const NcclLibrary& library, std::int64_t num_bytes);
  /// Waits for the current stream, which may still use it: NCCL frees memory immediately.
  ~NcclMemory() override;
  NcclMemory(const NcclMemory&) = delete;
  NcclMemory& operator=(const NcclMemory&) = delete;

  Span<std::byte> bytes() const override { return {data_, num_bytes_}; }

  /// Collective over comm, from make_nccl_communicator: every rank registers a block of the same
  /// size. comm outlives the window. Errors: invalid_argument if comm is not an NCCL communicator,
  /// or the block is registered; comm if NCCL refuses; the cause why other ranks do not arrive,
  /// within the limit of comm.
  void register_with(Communicator& comm);

  /// Registers it with another communicator for messages of this rank, independently of other
  /// ranks. comm outlives the block. Errors: comm if NCCL refuses.
  void also_for(Communicator& comm) override;

  /// Not collective. No effect if it is not registered, or its communicator is broken.
  void deregister() noexcept;

 private:
  const NcclLibrary& library_;
  std::byte* data_ = nullptr;
  std::size_t num_bytes_;
  Communicator* comm_ = nullptr;                           // it is registered with this one
  void* window_ = nullptr;                                 // an ncclWindow_t; null: NCCL uses none
  std::vector<std::pair<Communicator*, void*>> known_to_;  // for messages, with NCCL's handles
};

/// Collective over control, the ranks of comm (WindowedCommunicator::registered_buffer). They agree
/// before the NCCL call, which would make them wait for a rank without memory. Null if one of them
/// has a library without windows.
std::unique_ptr<NcclMemory> make_nccl_memory(Communicator& comm, Communicator& control,
                                             const NcclLibrary& library, std::int64_t num_bytes);

/// Such memory for messages of this rank. Null if the library has no windows: it has both or none.
std::unique_ptr<NcclMemory> make_message_memory(Communicator& comm, const NcclLibrary& library,
                                                std::int64_t num_bytes);

}  // namespace zeroproof::cuda
