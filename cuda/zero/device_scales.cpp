#include "cuda/zero/device_scales.hpp"

#include <algorithm>
#include <bit>
#include <vector>

namespace zeroproof::cuda {
namespace {

/// Of a block that is as long as the matrix: nothing is left of a row or column.
std::int32_t shift_of(std::int64_t block, std::int64_t extent) {
  if (block >= extent) return device::ScalePiece::whole;
  return std::countr_zero(static_cast<std::uint64_t>(block));
}

std::vector<device::ScalePiece> scale_pieces(const ParamScales& scales) {
  const TensorBlocks& blocks = scales.blocks();
  std::vector<device::ScalePiece> pieces;
  for (const Piece& run : scales.runs().blocks()) {
    const BlockGrid& grid = blocks.grid(run.tensor);
    device::ScalePiece piece{run.local_begin,     run.numel,    run.tensor,
                             run.tensor_begin,    grid.columns, blocks.first_block(run.tensor),
                             grid.blocks_across()};
    piece.row_shift = shift_of(grid.block_rows, grid.rows);
    piece.column_shift = shift_of(grid.block_columns, grid.columns);
    pieces.push_back(piece);
  }
  return pieces;
}

std::vector<std::int64_t> first_blocks(const TensorBlocks& blocks) {
  std::vector<std::int64_t> first;
  for (std::int64_t t = 0; t < blocks.num_tensors(); ++t) first.push_back(blocks.first_block(t));
  return first;
}

}  // namespace

DeviceScales::DeviceScales(const RankShard& shard, const Wires& wires)
    : setup_(shard.setup),
      wires_(wires),
      scales_(*shard.scales),
      codes_(shard.params.shard().data),
      rules_{setup_.scaling, setup_.param_dtype},
      pieces_(device_space(), Span<const device::ScalePiece>(scale_pieces(scales_))),
      first_blocks_(device_space(), Span<const std::int64_t>(first_blocks(scales_.blocks()))),
      memory_{.pieces = pieces_.data(),
              .first_blocks = first_blocks_.data(),
              .collected = scales_.collected().as<std::uint64_t>().data(),
              .amax = scales_.amax().data(),
              .history = scales_.history().data(),
              .scale = scales_.scale().data(),
              .scale_inv = scales_.scale_inv().data(),
              .num_pieces = pieces_.count(),
              .num_tensors = first_blocks_.count(),
              .num_blocks = scales_.blocks().num_blocks()} {}

void DeviceScales::load(const FullState& state, device::StepMemory memory) {
  memory.has_grad = nullptr;  // every tensor
  memory.param = codes_;
  if (scales_.load(state)) {
    device::enqueue_make_scales(memory, memory_, rules_, device::ScalesFrom::state);
    return device::enqueue_make_codes(memory, memory_, rules_);
  }
  collect(memory);
  join();
  device::enqueue_make_scales(memory, memory_, rules_, device::ScalesFrom::masters);
  device::enqueue_make_codes(memory, memory_, rules_);
  if (setup_.scaling.initial_master == InitialMaster::dequantised && !scales_.of_columns()) {
    device::enqueue_dequantize_masters(memory, memory_, rules_);
  }
}

void DeviceScales::collect(const device::StepMemory& memory) const {
  device_space().fill(memory_.collected, 0, scales_.collected().view().num_bytes());
  device::enqueue_collect_amax(memory, memory_, rules_);
}

/// In stage 0 every rank has collected everything, and every instance has.
void DeviceScales::join() const {
  for (Communicator* const wire : {setup_.stage > 0 ? wires_.comm : nullptr, wires_.tp}) {
    if (wire == nullptr || wire->world_size() == 1) continue;
    for (std::int64_t first = 0; first < memory_.num_blocks; first += most_joined_words) {
      const std::int64_t count = std::min(most_joined_words, memory_.num_blocks - first);
      wire->all_reduce({memory_.collected + first, static_cast<std::size_t>(count)}, IntegerReduce::max);
    }
  }
}

bool DeviceScales::joins() const {
  const auto several = [](const Communicator* wire) { return wire != nullptr && wire->world_size() > 1; };
  return (setup_.stage > 0 && several(wires_.comm)) || several(wires_.tp);
}

void DeviceScales::make(device::StepMemory memory) const {
  memory.param = codes_;
  device::enqueue_make_scales(memory, memory_, rules_, device::ScalesFrom::masters);
  device::enqueue_make_codes(memory, memory_, rules_);
}

}  // namespace zeroproof::cuda
