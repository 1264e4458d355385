#pragma once
// Memory that wires reach on every rank without copies of their own.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "common/base/span.hpp"
#include "common/comm/communicator.hpp"
#include "cuda/runtime/memory_ledger.hpp"

namespace zeroproof::cuda {

/// A block of it. It waits for what the current stream was given when it goes, and goes before its communicator.
class WireMemory {
 public:
  virtual ~WireMemory() = default;
  virtual Span<std::byte> bytes() const = 0;
};

/// A communicator that may have such memory.
class WindowedWires {
 public:
  virtual ~WindowedWires() = default;

  /// Collective: equally many bytes on all ranks, more than 0; content undefined. Null on all of them if one has none.
  /// Errors: unavailable if the device has not so much; comm if it is refused; invalid_argument for unequal ranks. The
  /// communicator is broken then, and other ranks are told.
  virtual std::unique_ptr<WireMemory> wire_memory(std::int64_t num_bytes) = 0;
};

/// Collective over comm: memory for a buffer that arrives at all ranks alike. Null where ordinary memory does.
inline std::unique_ptr<WireMemory> wire_memory(Communicator& comm, std::int64_t numel, DType dtype) {
  auto* const wires = dynamic_cast<WindowedWires*>(&comm);
  if (wires == nullptr || comm.world_size() == 1 || numel == 0) return nullptr;
  return wires->wire_memory(GuardedBuffer::footprint(numel, dtype));
}

/// A buffer of the ledger's space there, or in ordinary memory for null. The memory outlives it.
inline CountedBuffer counted_in(const WireMemory* memory, MemoryLedger& ledger, MemoryClass kind,
                                std::int64_t numel, DType dtype) {
  if (memory == nullptr) return {ledger, kind, numel, dtype};
  constexpr BufferFill fill = BufferFill::poison;
  return {ledger, kind, GuardedBuffer(memory->bytes().data(), numel, dtype, fill, ledger.space().memory),
          fill};
}

}  // namespace zeroproof::cuda
