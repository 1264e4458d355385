#pragma once
// Buffers for gradients before G: nodes of the tree and messages. Allocated once and kept across
// steps, because allocating the memory again in every step costs more than the additions.

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
  /// guarded: the memory becomes NaN when it is taken again. comm_groups: carry the messages from
  /// and to this memory; they must outlive this.
  GrowingBuffer(MemoryLedger& ledger, MemoryClass kind, bool guarded,
                std::vector<Communicator*> comm_groups = {})
      : ledger_(ledger), kind_(kind), guarded_(guarded), comm_groups_(std::move(comm_groups)) {}

  const MemorySpace& space() const { return ledger_.space(); }

  /// num_bytes of memory, 64-byte aligned. Invalidates the result of an earlier call.
  std::byte* take(std::int64_t num_bytes) {
    if (buffer_->numel() < num_bytes) {
      buffer_ = CountedBuffer();  // freed before the larger one is allocated
      memory_.reset();
      constexpr DType bytes = DType::e4m3;  // one byte each
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
  std::unique_ptr<RegisteredBuffer> memory_;  // memory of the buffer, if comm_groups provide it
  CountedBuffer buffer_;
};

/// Memory of one rank. Used by one thread at a time: reductions, updates and gathers of a step
/// never run concurrently.
class GradMemory {
 public:
  /// guarded: memory is NaN after allocation and after every last use (OptimizerSetup::guards).
  /// comm_groups: carry the messages; they must outlive this.
  GradMemory(MemoryLedger& ledger, bool guarded, const CommGroups& comm_groups = {})
      : out(ledger, MemoryClass::comm_buffer, guarded, {comm_groups.comm}),
        in(ledger, MemoryClass::comm_buffer, guarded, {comm_groups.comm}),
        gathered(ledger, MemoryClass::comm_buffer, guarded, {comm_groups.replicas, comm_groups.tp}),
        tp_sum(ledger, MemoryClass::grad_nodes, guarded),
        matrices(ledger, MemoryClass::comm_buffer, guarded),
        ledger_(ledger),
        guarded_(guarded) {}

  MemoryLedger& ledger() const { return ledger_; }
  const MemorySpace& space() const { return ledger_.space(); }
  bool guarded() const { return guarded_; }

  // They grow with the messages of their own rank, so none has a window, which all ranks create
  // together.
  GrowingBuffer out;       ///< packed parts to send to their owners
  GrowingBuffer in;        ///< received parts
  GrowingBuffer gathered;  ///< data exchanged by instances or TP ranks
  GrowingBuffer tp_sum;    ///< a micro-batch gradient with all TP parts
  GrowingBuffer matrices;  ///< whole matrices of the rule muon (R28)

  /// Content of newly allocated memory.
  BufferFill fill() const { return guarded_ ? BufferFill::poison : BufferFill::untouched; }

  /// fp32 values that exist as long as the returned buffer.
  CountedBuffer nodes(std::int64_t numel) const { return bytes(numel, DType::fp32); }
  CountedBuffer bytes(std::int64_t numel, DType dtype) const {
    return CountedBuffer(ledger_, MemoryClass::grad_nodes, numel, dtype, fill());
  }

 private:
  MemoryLedger& ledger_;
  const bool guarded_;
};

}  // namespace zeroproof::cuda
