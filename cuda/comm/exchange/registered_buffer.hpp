#pragma once
// Memory that communicators access on every rank without intermediate copies.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "common/base/span.hpp"
#include "common/comm/communicator.hpp"
#include "cuda/optimizer/overlap/memory_ledger.hpp"

namespace zeroproof::cuda {

/// One block. Its destructor waits for the work of the current stream; destroyed before its
/// communicator.
class RegisteredBuffer {
 public:
  virtual ~RegisteredBuffer() = default;
  virtual Span<std::byte> bytes() const = 0;

  /// For message memory: registers it with another communicator too, which outlives it. Not
  /// collective; no effect for a communicator without such memory.
  virtual void also_for(Communicator& comm) = 0;
};

/// A communicator that may provide such memory.
class WindowedCommunicator {
 public:
  virtual ~WindowedCommunicator() = default;

  /// Collective: the same number of bytes on all ranks, more than 0; content undefined. Null on all
  /// ranks if one has none. Errors: unavailable if the device has too little memory; comm if it is
  /// refused; invalid_argument for unequal sizes. The communicator is broken then, and the other
  /// ranks are notified.
  virtual std::unique_ptr<RegisteredBuffer> registered_buffer(std::int64_t num_bytes) = 0;

  /// The same for messages, whose size differs by rank: not collective, and used by this rank only.
  virtual std::unique_ptr<RegisteredBuffer> message_memory(std::int64_t num_bytes) = 0;
};

/// Collective over comm: memory for a buffer that all ranks receive. Null if ordinary memory is
/// enough.
inline std::unique_ptr<RegisteredBuffer> registered_buffer(Communicator& comm, std::int64_t numel,
                                                           DType dtype) {
  auto* const comm_groups = dynamic_cast<WindowedCommunicator*>(&comm);
  if (comm_groups == nullptr || comm.world_size() == 1 || numel == 0) return nullptr;
  return comm_groups->registered_buffer(GuardedBuffer::footprint(numel, dtype));
}

/// Memory for a buffer whose content these communicators send or receive; null ones are ignored.
/// Null if ordinary memory is enough.
inline std::unique_ptr<RegisteredBuffer> message_memory(Span<Communicator* const> comms,
                                                        std::int64_t numel, DType dtype) {
  std::unique_ptr<RegisteredBuffer> memory;
  for (Communicator* const comm : comms) {
    auto* const comm_groups = dynamic_cast<WindowedCommunicator*>(comm);
    if (comm_groups == nullptr || comm->world_size() == 1 || numel == 0) continue;
    if (memory)
      memory->also_for(*comm);
    else
      memory = comm_groups->message_memory(GuardedBuffer::footprint(numel, dtype));
  }
  return memory;
}

/// A buffer of the ledger's space in this memory, or in ordinary memory for null. The memory must
/// outlive it.
inline CountedBuffer counted_in(const RegisteredBuffer* memory, MemoryLedger& ledger,
                                MemoryClass kind, std::int64_t numel, DType dtype,
                                BufferFill fill = BufferFill::poison) {
  if (memory == nullptr) return {ledger, kind, numel, dtype, fill};
  return {ledger, kind,
          GuardedBuffer(memory->bytes().data(), numel, dtype, fill, ledger.space().memory), fill};
}

}  // namespace zeroproof::cuda
