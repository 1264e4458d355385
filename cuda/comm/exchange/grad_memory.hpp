#pragma once
// The home of gradients on their way to G: nodes of the tree and messages. It is made once and survives steps, because
// memory that the system gives anew in every step costs more than the additions.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "cuda/comm/exchange/comm_groups.hpp"
#include "cuda/comm/exchange/registered_buffer.hpp"
#include "cuda/optimizer/overlap/memory_ledger.hpp"

namespace zeroproof::cuda {

/// Memory that grows to the largest request and keeps that size.
class GrowingBuffer {
 public:
  /// guarded: what an earlier call left is NaN when the memory is taken again. comm_groups: those that carry the messages
  /// from here and to here; they outlive this.
  GrowingBuffer(MemoryLedger& ledger, MemoryClass kind, bool guarded,
                std::vector<Communicator*> comm_groups = {})
      : ledger_(ledger), kind_(kind), guarded_(guarded), comm_groups_(std::move(comm_groups)) {}

  const MemorySpace& space() const { return ledger_.space(); }

  /// num_bytes of memory, 64-byte aligned. What an earlier call returned is gone.
  std::byte* take(std::int64_t num_bytes) {
    if (buffer_->numel() < num_bytes) {
      buffer_ = CountedBuffer();  // before the larger one is there, so that both never exist
      memory_.reset();
      constexpr DType bytes = DType::e4m3;  // one each
      memory_ = message_memory(comm_groups_, num_bytes, bytes);
      buffer_ = counted_in(memory_.get(), ledger_, kind_, num_bytes, bytes, fill());
    } else if (guarded_) {
      buffer_->poison();
    }
    return static_cast<std::byte*>(buffer_->data());
  }

 private:
  BufferFill fill() const { return guarded_ ? BufferFill::poison : BufferFill::untouched; }

  MemoryLedger& ledger_;
  const MemoryClass kind_;
  const bool guarded_;
  const std::vector<Communicator*> comm_groups_;
  std::unique_ptr<RegisteredBuffer> memory_;  // of the buffer, if it is the comm_groups'
  CountedBuffer buffer_;
};

/// One rank's. Used by one thread at a time: reductions and gathers of a step never run at once.
class GradMemory {
 public:
  /// guarded: memory is NaN from its birth and after every last use (OptimizerSetup::guards).
  /// comm_groups: carry the messages; they outlive this.
  GradMemory(MemoryLedger& ledger, bool guarded, const CommGroups& comm_groups = {})
      : out(ledger, MemoryClass::comm_buffer, guarded, {comm_groups.comm}),
        in(ledger, MemoryClass::comm_buffer, guarded, {comm_groups.comm}),
        gathered(ledger, MemoryClass::comm_buffer, guarded, {comm_groups.replicas, comm_groups.tp}),
        tp_sum(ledger, MemoryClass::grad_nodes, guarded),
        ledger_(ledger),
        guarded_(guarded) {}

  MemoryLedger& ledger() const { return ledger_; }
  const MemorySpace& space() const { return ledger_.space(); }
  bool guarded() const { return guarded_; }

  // They grow with the messages of their own rank, so none has a window, which is made by all.
  GrowingBuffer out;       ///< packed parts on their way to their owners
  GrowingBuffer in;        ///< what arrives here
  GrowingBuffer gathered;  ///< what instances, or TP ranks, tell each other
  GrowingBuffer tp_sum;    ///< a leaf with all TP parts in it

  /// What memory holds when it is born.
  BufferFill fill() const { return guarded_ ? BufferFill::poison : BufferFill::untouched; }

  /// fp32 values that stay as long as the buffer that is returned.
  CountedBuffer nodes(std::int64_t numel) const { return bytes(numel, DType::fp32); }
  CountedBuffer bytes(std::int64_t numel, DType dtype) const {
    return CountedBuffer(ledger_, MemoryClass::grad_nodes, numel, dtype, fill());
  }

 private:
  MemoryLedger& ledger_;
  const bool guarded_;
};

}  // namespace zeroproof::cuda
