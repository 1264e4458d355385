#include "cuda/optimizer/param_columns.hpp"

#include "cuda/host/formats/transpose_bytes.hpp"

namespace zeroproof::cuda {

ParamColumns::Own::Own(const RankLayout& layout, RankMemory& memory)
    : ranges(layout.ranges),
      store(layout.setup, ranges, memory.near.get(), memory.ledger),
      gather(layout.setup, layout.plans, memory.messages, store, memory.near.get(),
             *layout.comm_groups.comm),
      scales(layout.setup, ParamScales::Of::columns, ranges, memory.ledger) {}

ParamColumns::ParamColumns(const RankLayout& layout, RankMemory& memory,
                           const std::vector<FlatRange>& full_ranges)
    : space_(memory.space()),
      on_(has_scales(layout.setup.param_dtype) && layout.setup.scaling.columnwise) {
  if (!on_) return;
  const OptimizerSetup& setup = layout.setup;
  if (has_own_columns(setup.scaling)) {
    own_ = std::make_unique<Own>(layout, memory);
    return;
  }
  columns_ = CountedBuffer(memory.ledger, MemoryClass::param_full, total_numel(full_ranges),
                           setup.param_dtype);
  for (const Piece& piece : setup.layout->pieces(full_ranges)) {
    const TensorSlot& tensor = setup.layout->tensors()[piece.tensor];
    const std::int64_t columns = tensor.shape.empty() ? 1 : tensor.shape.back();
    pieces_.push_back(piece);
    matrices_.push_back({nullptr, nullptr, piece.numel / columns, columns});
  }
}

std::string_view ParamColumns::damaged_guard() const {
  if (!columns_->guards_intact()) return name(BufferId::param_columns);
  if (!own_) return {};
  if (!own_->gather.full_buffer().guards_intact()) return name(BufferId::param_columns);
  if (!own_->store.guards_intact()) return name(BufferId::column_shard);
  return own_->scales.damaged_guard();
}

std::vector<ExposedBuffer> ParamColumns::exposed() const {
  if (!own_) return {};
  own_->store.show();
  std::vector<ExposedBuffer> buffers = own_->scales.exposed();
  buffers.push_back({BufferId::column_shard, own_->store.shard(), own_->ranges});
  return buffers;
}

void ParamColumns::rebuild(const Exec& exec, const TensorView& full) {
  if (!on_) return;
  own_ ? own_->gather.gather_all() : transpose(exec, full);
}

void ParamColumns::transpose(const Exec& exec, const TensorView& full) {
  if (table_) return device::enqueue_transpose_bytes(table_->data(), table_->count());
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    matrices_[i].from = static_cast<const std::uint8_t*>(full.data) + pieces_[i].local_begin;
    matrices_[i].to = static_cast<std::uint8_t*>(columns_->data()) + pieces_[i].local_begin;
  }
  if (space_.kind == Space::device) {
    if (matrices_.empty()) return;
    table_ = std::make_unique<SpaceArray<device::ByteMatrix>>(
        space_, Span<const device::ByteMatrix>(matrices_));
    return device::enqueue_transpose_bytes(table_->data(), table_->count());
  }
  for (const device::ByteMatrix& matrix : matrices_) {
    host::transpose_bytes(exec, matrix.from, matrix.to, matrix.rows, matrix.columns);
  }
}

}  // namespace zeroproof::cuda
