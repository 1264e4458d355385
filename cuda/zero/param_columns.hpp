#pragma once

#include <memory>
#include <vector>

#include "common/step/distributed_optimizer.hpp"
#include "cuda/device/step/transpose_bytes.hpp"
#include "cuda/memory/space_array.hpp"
#include "cuda/runtime/memory_ledger.hpp"

namespace zeroproof::cuda {

/// The column-wise copy of parameters in 8 bits that are whole on a rank (R24): every tensor at the place it has among
/// these, its codes column after column.
class ParamColumns {
 public:
  /// Nothing unless the setup asks for it. full_ranges: of the whole parameters. The ledger outlives this.
  ParamColumns(const OptimizerSetup& setup, const std::vector<FlatRange>& full_ranges, MemoryLedger& ledger);

  explicit operator bool() const { return on_; }
  TensorView view() const { return columns_->view(); }
  bool guards_intact() const { return columns_->guards_intact(); }

  /// full: the whole parameters, always at the same place. On a device it is enqueued.
  void rebuild(const Exec& exec, const TensorView& full);

 private:
  const MemorySpace& space_;
  const bool on_;
  std::vector<Piece> pieces_;  ///< of tensors, each whole
  std::vector<device::ByteMatrix> matrices_;
  CountedBuffer columns_;
  std::unique_ptr<SpaceArray<device::ByteMatrix>> table_;  ///< on a device, from the first time on
};

}  // namespace zeroproof::cuda
