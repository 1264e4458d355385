#pragma once
// Memory allocated by a rank, by class, counted at the allocation.

#include <algorithm>
#include <exception>
#include <mutex>
#include <utility>

#include "common/base/guarded_buffer.hpp"
#include "common/step/memory_use.hpp"
#include "cuda/comm/memory/memory_space.hpp"

namespace zeroproof::cuda {

/// Bytes in use and their peaks, in one space. Several threads may count at once.
class MemoryLedger {
 public:
  /// checks_guards: whether red zones are checked whenever memory is freed. On the host they
  /// always are; on a device the host would wait each time.
  explicit MemoryLedger(const MemorySpace& space = host_space(), bool checks_guards = true)
      : space_(space), checks_guards_(checks_guards || space.kind == Space::host) {}

  const MemorySpace& space() const { return space_; }
  bool checks_guards() const { return checks_guards_; }

  void add(MemoryClass kind, std::int64_t num_bytes) {
    const std::lock_guard lock(mutex_);
    const auto i = static_cast<std::size_t>(kind);
    use_.now[i] += num_bytes;
    use_.total_now += num_bytes;
    use_.peak[i] = std::max(use_.peak[i], use_.now[i]);
    use_.total_peak = std::max(use_.total_peak, use_.total_now);
  }
  void remove(MemoryClass kind, std::int64_t num_bytes) { add(kind, -num_bytes); }

  MemoryUse use() const {
    const std::lock_guard lock(mutex_);
    return use_;
  }

 private:
  const MemorySpace& space_;
  const bool checks_guards_;
  mutable std::mutex mutex_;
  MemoryUse use_;
};

/// A guarded buffer in the ledger's space that is counted on the ledger during its lifetime. A
/// buffer that was poisoned at allocation is poisoned again before it is freed, so a late reader of
/// its pages finds NaN. The ledger must outlive it.
class CountedBuffer {
 public:
  CountedBuffer() = default;
  CountedBuffer(MemoryLedger& ledger, MemoryClass kind, std::int64_t numel, DType dtype,
                BufferFill fill = BufferFill::poison)
      : CountedBuffer(ledger, kind, made(ledger, kind, numel, dtype, fill), fill) {}
  CountedBuffer(MemoryLedger& ledger, MemoryClass kind, GuardedBuffer buffer, BufferFill fill)
      : buffer_(std::move(buffer)), ledger_(&ledger), kind_(kind), fill_(fill) {
    ledger_->add(kind_, buffer_.view().num_bytes());
  }
  CountedBuffer(CountedBuffer&& other) noexcept
      : buffer_(std::move(other.buffer_)),
        ledger_(std::exchange(other.ledger_, nullptr)),
        kind_(other.kind_),
        fill_(other.fill_) {}
  CountedBuffer& operator=(CountedBuffer&& other) noexcept {
    if (this == &other) return *this;
    release();
    buffer_ = std::move(other.buffer_);
    ledger_ = std::exchange(other.ledger_, nullptr);
    kind_ = other.kind_;
    fill_ = other.fill_;
    return *this;
  }
  ~CountedBuffer() { release(); }

  /// False if memory outside of it was overwritten, and the ledger checks guards.
  bool intact() const {
    return ledger_ == nullptr || !ledger_->checks_guards() || buffer_.guards_intact();
  }

  GuardedBuffer& operator*() { return buffer_; }
  const GuardedBuffer& operator*() const { return buffer_; }
  GuardedBuffer* operator->() { return &buffer_; }
  const GuardedBuffer* operator->() const { return &buffer_; }

 private:
  /// Errors: unavailable, with the purpose of the memory, if the device cannot allocate it.
  static GuardedBuffer made(const MemoryLedger& ledger, MemoryClass kind, std::int64_t numel,
                            DType dtype, BufferFill fill);

  void release() noexcept {
    if (ledger_ == nullptr) return;
    try {
      if (fill_ == BufferFill::poison) buffer_.poison();
    } catch (const std::exception&) {  // already reported to the thread that waited for it
    }
    ledger_->remove(kind_, buffer_.view().num_bytes());
    ledger_ = nullptr;
  }

  GuardedBuffer buffer_;
  MemoryLedger* ledger_ = nullptr;
  MemoryClass kind_ = MemoryClass::comm_buffer;
  BufferFill fill_ = BufferFill::poison;
};

}  // namespace zeroproof::cuda
