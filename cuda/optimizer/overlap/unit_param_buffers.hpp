#pragma once
// Whole parameters of units while they are used, never older than the latest cast.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/span.hpp"
#include "cuda/optimizer/overlap/memory_ledger.hpp"
#include "cuda/optimizer/overlap/unit_exchange.hpp"

namespace zeroproof::cuda {

/// The cycle of a unit is allocate, gather, get as often as needed, release. Different units may be
/// in use by different threads; calls for the same unit must be ordered. Counted as
/// MemoryClass::param_full and, if poisoning is on, filled with NaN until they are gathered and
/// again before they are freed.
class UnitParamBuffers {
 public:
  /// Shapes   persistent: [units], or empty for none. The gatherer and the ledger must outlive this.
  UnitParamBuffers(std::vector<FlatRange> units, std::vector<bool> persistent, DType dtype,
                   UnitGatherer& gatherer, MemoryLedger& ledger,
                   BufferFill fill = BufferFill::poison);

  bool is_persistent(int unit) const;

  /// [unit numel]. Errors: internal if the unit has a buffer already.
  void allocate(int unit);

  /// Collective. Fills the unit's buffer and records the version. Errors: internal without a
  /// buffer.
  void gather(int unit);

  /// Collective. Gathers every persistent unit whose version is not the latest; the first call
  /// allocates them.
  void gather_persistent();

  /// [unit numel]. Errors: internal, naming the unit and both versions, if it is not gathered or
  /// the gatherer's version has changed since.
  TensorView get(int unit) const;

  /// Frees the buffer; persistent units stay. Errors: internal if there is no buffer, or memory
  /// outside it was overwritten.
  void release(int unit);

  /// Frees all but the persistent units, after an error.
  void release_all();

 private:
  static constexpr std::int64_t not_gathered = -1;
  struct Entry {
    FlatRange range;
    bool is_persistent = false;
    bool is_alive = false;
    std::int64_t version = not_gathered;
    CountedBuffer buffer;
  };

  std::size_t validate(int unit) const;
  void give_back(Entry& entry);

  const DType dtype_;
  UnitGatherer& gatherer_;
  MemoryLedger& ledger_;
  const BufferFill fill_;
  std::vector<Entry> entries_;
};

}  // namespace zeroproof::cuda
