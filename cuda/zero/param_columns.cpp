#include "cuda/zero/param_columns.hpp"

#include "cuda/exchange/bucket_plan.hpp"
#include "cuda/host/transpose_bytes.hpp"

namespace zeroproof::cuda {

ParamColumns::ParamColumns(const OptimizerSetup& setup, const std::vector<FlatRange>& full_ranges,
                           MemoryLedger& ledger)
    : space_(ledger.space()), on_(has_scales(setup.param_dtype) && setup.scaling.columnwise) {
  if (!on_) return;
  columns_ = CountedBuffer(ledger, MemoryClass::param_full, total_numel(full_ranges), setup.param_dtype);
  for (const Piece& piece : setup.layout->pieces(full_ranges)) {
    const TensorSlot& tensor = setup.layout->tensors()[static_cast<std::size_t>(piece.tensor)];
    const std::int64_t columns = tensor.shape.empty() ? 1 : tensor.shape.back();
    pieces_.push_back(piece);
    matrices_.push_back({nullptr, nullptr, piece.numel / columns, columns});
  }
}

void ParamColumns::rebuild(const Exec& exec, const TensorView& full) {
  if (!on_) return;
  if (table_) return device::enqueue_transpose_bytes(table_->data(), table_->count());
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    matrices_[i].from = static_cast<const std::uint8_t*>(full.data) + pieces_[i].local_begin;
    matrices_[i].to = static_cast<std::uint8_t*>(columns_->data()) + pieces_[i].local_begin;
  }
  if (space_.kind == Space::device) {
    if (matrices_.empty()) return;
    table_ =
        std::make_unique<SpaceArray<device::ByteMatrix>>(space_, Span<const device::ByteMatrix>(matrices_));
    return device::enqueue_transpose_bytes(table_->data(), table_->count());
  }
  for (const device::ByteMatrix& matrix : matrices_) {
    host::transpose_bytes(exec, matrix.from, matrix.to, matrix.rows, matrix.columns);
  }
}

}  // namespace zeroproof::cuda
