#pragma once
// Bytes counted without allocating them.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "verification/tools/plan/predict/memory_model.hpp"

namespace zeroproof {

/// The memory ledger of a rank. at_peak, if not null: the classes when their sum was largest.
class MemoryTally {
 public:
  explicit MemoryTally(BytesByClass* at_peak) : at_peak_(at_peak) {}

  void add(MemoryClass kind, std::int64_t bytes) {
    const auto i = static_cast<std::size_t>(kind);
    use_.now[i] += bytes;
    use_.total_now += bytes;
    use_.peak[i] = std::max(use_.peak[i], use_.now[i]);
    if (use_.total_now <= use_.total_peak) return;
    use_.total_peak = use_.total_now;
    if (at_peak_ != nullptr) *at_peak_ = use_.now;
  }
  const MemoryUse& use() const { return use_; }

 private:
  MemoryUse use_;
  BytesByClass* at_peak_;
};

}  // namespace zeroproof
