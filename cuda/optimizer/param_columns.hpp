#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "common/step/distributed_optimizer.hpp"
#include "cuda/comm/memory/space_array.hpp"
#include "cuda/device/step/transpose_bytes.hpp"
#include "cuda/optimizer/overlap/memory_ledger.hpp"
#include "cuda/optimizer/params/param_gather.hpp"
#include "cuda/optimizer/params/param_scales.hpp"
#include "cuda/optimizer/params/param_store.hpp"
#include "cuda/optimizer/rank_memory.hpp"

namespace zeroproof::cuda {

/// The column-wise copy of parameters in 8 bits that are whole on a rank (R24): every tensor at its
/// offset among these, its codes column after column. Columns that have scales of their own have a
/// shard of their own codes, and are gathered like parameters.
class ParamColumns {
 public:
  /// Empty unless the setup requires it. full_ranges: of the whole parameters. Collective over comm
  /// where ParamGather's constructor is. All of it outlives this.
  ParamColumns(const RankLayout& layout, RankMemory& memory,
               const std::vector<FlatRange>& full_ranges);

  explicit operator bool() const { return on_; }
  TensorView view() const { return own_ ? own_->gather.full() : columns_->view(); }
  /// Whether the ranks of a machine share one copy.
  bool one_copy() const { return own_ && own_->store.one_copy(); }
  /// Name of a buffer whose red zone was overwritten, "" if none was.
  std::string_view damaged_guard() const;

  /// The codes and scales of a copy that has its own, or null.
  ParamStore* store() { return own_ ? &own_->store : nullptr; }
  ParamScales* scales() { return own_ ? &own_->scales : nullptr; }
  /// Views for observers of phase cast.
  std::vector<ExposedBuffer> exposed() const;

  /// Phase gather. full: the whole parameters, always at the same address. On a device it is
  /// enqueued; collective over comm like ParamGather::gather_all if the copy has its own codes.
  void rebuild(const Exec& exec, const TensorView& full);

 private:
  struct Own {
    Own(const RankLayout& layout, RankMemory& memory);
    const std::vector<FlatRange>& ranges;
    ParamStore store;
    ParamGather gather;
    ParamScales scales;
  };

  void transpose(const Exec& exec, const TensorView& full);

  const MemorySpace& space_;
  const bool on_;
  std::unique_ptr<Own> own_;
  std::vector<Piece> pieces_;  ///< of tensors, each whole
  std::vector<device::ByteMatrix> matrices_;
  CountedBuffer columns_;
  std::unique_ptr<SpaceArray<device::ByteMatrix>> table_;  ///< on a device, from the first call on
};

}  // namespace zeroproof::cuda
