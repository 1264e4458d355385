#pragma once
// Device memory that NCCL can reach on all ranks without copies of its own. This header needs neither nccl.h nor CUDA.

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

/// A block of such memory, and its window in one communicator at a time. Not enqueued: the block is there at once, and
/// nothing that is enqueued may still use its window when that goes. On a machine where NCCL has no use for a window
/// the block is one of ordinary memory.
class NcclMemory final : public RegisteredBuffer {
 public:
  /// Whether a library has what this needs.
  static bool offered(const NcclLibrary& library);

  /// Content undefined. num_bytes > 0. The library outlives this.
  /// Errors: unavailable if the library does not offer it, or the device has not so much.
  NcclMemory(const NcclLibrary& library, std::int64_t num_bytes);
  /// Waits for the current stream, which may still use it: NCCL gives memory back at once.
  ~NcclMemory() override;
  NcclMemory(const NcclMemory&) = delete;
  NcclMemory& operator=(const NcclMemory&) = delete;

  Span<std::byte> bytes() const override { return {data_, num_bytes_}; }

  /// Collective over comm, of make_nccl_communicator: every rank registers a block as long as this one. comm outlives
  /// the window. Errors: invalid_argument if comm is none of NCCL's, or the block is registered; comm if NCCL refuses;
  /// why other ranks do not come, within the limit of comm.
  void register_with(Communicator& comm);

  /// Lets another communicator know it, for messages of this rank, whatever other ranks do. comm outlives the block.
  /// Errors: comm if NCCL refuses.
  void also_for(Communicator& comm) override;

  /// Not collective. Nothing happens if it is not registered, or its communicator is broken.
  void deregister() noexcept;

 private:
  const NcclLibrary& library_;
  std::byte* data_ = nullptr;
  std::size_t num_bytes_;
  Communicator* comm_ = nullptr;  // that it is registered with
  void* window_ = nullptr;        // an ncclWindow_t; null: NCCL does without
  std::vector<std::pair<Communicator*, void*>> known_to_;  // for messages, with NCCL's handles
};

/// Collective over control, the ranks of comm (WindowedCommunicator::registered_buffer). They agree before NCCL is asked, which
/// would let them wait for one that has no memory. Null if one of them has a library without windows.
std::unique_ptr<NcclMemory> make_nccl_memory(Communicator& comm, Communicator& control,
                                             const NcclLibrary& library, std::int64_t num_bytes);

/// Such memory for messages of this rank. Null if the library has no windows: the two came together.
std::unique_ptr<NcclMemory> make_message_memory(Communicator& comm, const NcclLibrary& library,
                                                std::int64_t num_bytes);

}  // namespace zeroproof::cuda
