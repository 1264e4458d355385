#pragma once
// Memory that comm_groups reach on every rank without copies of their own.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "common/base/span.hpp"
#include "common/comm/communicator.hpp"
#include "cuda/optimizer/overlap/memory_ledger.hpp"

namespace zeroproof::cuda {

/// A block of it. It waits for what the current stream was given when it goes, and goes before its communicator.
class RegisteredBuffer {
 public:
  virtual ~RegisteredBuffer() = default;
  virtual Span<std::byte> bytes() const = 0;

  /// Of message memory: another communicator reaches it too, which outlives it. Not collective; nothing happens if it
  /// is none that could.
  virtual void also_for(Communicator& comm) = 0;
};

/// A communicator that may have such memory.
class WindowedCommunicator {
 public:
  virtual ~WindowedCommunicator() = default;

  /// Collective: equally many bytes on all ranks, more than 0; content undefined. Null on all of them if one has none.
  /// Errors: unavailable if the device has not so much; comm if it is refused; invalid_argument for unequal ranks. The
  /// communicator is broken then, and other ranks are told.
  virtual std::unique_ptr<RegisteredBuffer> registered_buffer(std::int64_t num_bytes) = 0;

  /// The same for messages, which are of another length on every rank: not collective, and known to this rank alone.
  virtual std::unique_ptr<RegisteredBuffer> message_memory(std::int64_t num_bytes) = 0;
};

/// Collective over comm: memory for a buffer that arrives at all ranks alike. Null where ordinary memory does.
inline std::unique_ptr<RegisteredBuffer> registered_buffer(Communicator& comm, std::int64_t numel,
                                                           DType dtype) {
  auto* const comm_groups = dynamic_cast<WindowedCommunicator*>(&comm);
  if (comm_groups == nullptr || comm.world_size() == 1 || numel == 0) return nullptr;
  return comm_groups->registered_buffer(GuardedBuffer::footprint(numel, dtype));
}

/// Memory for a buffer from which, or in which, messages of these communicators travel, null ones left out. Null where
/// ordinary memory does.
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

/// A buffer of the ledger's space there, or in ordinary memory for null. The memory outlives it.
inline CountedBuffer counted_in(const RegisteredBuffer* memory, MemoryLedger& ledger,
                                MemoryClass kind, std::int64_t numel, DType dtype,
                                BufferFill fill = BufferFill::poison) {
  if (memory == nullptr) return {ledger, kind, numel, dtype, fill};
  return {ledger, kind,
          GuardedBuffer(memory->bytes().data(), numel, dtype, fill, ledger.space().memory), fill};
}

}  // namespace zeroproof::cuda
