#include "cuda/optimizer/device/device_scales.hpp"

#include <bit>
#include <utility>
#include <vector>

#include "cuda/optimizer/params/joined_amax.hpp"

namespace zeroproof::cuda {
namespace {

/// Of a block that is as long as the matrix: the shift makes every row or column index 0.
std::int32_t shift_of(std::int64_t block, std::int64_t extent) {
  if (block >= extent) return device::ScalePiece::whole;
  return std::countr_zero(static_cast<std::uint64_t>(block));
}

device::ScalePiece scale_piece(const TensorBlocks& blocks, const Piece& run) {
  const BlockGrid& grid = blocks.grid(run.tensor);
  device::ScalePiece piece{run.local_begin,     run.numel,    run.tensor,
                           run.tensor_begin,    grid.columns, blocks.first_block(run.tensor),
                           grid.blocks_across()};
  piece.row_shift = shift_of(grid.block_rows, grid.rows);
  piece.column_shift = shift_of(grid.block_columns, grid.columns);
  return piece;
}

std::vector<std::int64_t> first_blocks(const TensorBlocks& blocks) {
  std::vector<std::int64_t> first;
  for (std::int64_t t = 0; t < blocks.num_tensors(); ++t) first.push_back(blocks.first_block(t));
  return first;
}

}  // namespace

DeviceScales::Table DeviceScales::table_of(const RankShard& shard) {
  const ParamScales& scales = *shard.scales;
  Table table;
  const auto add = [&](const Piece& run) {
    table.pieces.push_back(scale_piece(scales.blocks(), run));
  };
  const auto end_part = [&](std::int64_t begin, std::int64_t shift) {
    const auto count = static_cast<std::int64_t>(table.pieces.size()) - begin;
    if (count > 0) table.parts.push_back({begin, count, shift});
  };
  if (shard.split == nullptr) {
    for (const Piece& run : scales.runs().blocks()) add(run);
    end_part(0, 0);
    return table;
  }
  const std::vector<Piece>& resident = shard.split->resident_pieces();
  auto next = resident.begin();
  for (const StateSplit::Stretch& stretch : shard.split->stretches()) {
    const auto begin = static_cast<std::int64_t>(table.pieces.size());
    for (; next != resident.end() && next->local_begin < stretch.local_begin + stretch.numel;
         ++next) {
      for (std::int64_t at = 0; at < next->numel; at += device::ScalePiece::most_numel)
        scales.for_runs(next->part(at, device::ScalePiece::most_numel), add);
    }
    end_part(begin, stretch.place - stretch.local_begin);
  }
  return table;
}

DeviceScales::DeviceScales(const RankShard& shard, const CommGroups& comm_groups)
    : setup_(shard.setup),
      comm_groups_(comm_groups),
      scales_(*shard.scales),
      codes_(shard.params.shard().data),
      rules_{setup_.scaling, setup_.param_dtype},
      table_(table_of(shard)),
      pieces_(device_space(), Span<const device::ScalePiece>(table_.pieces)),
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
  device_space().fill(memory_.collected, 0, scales_.collected().view().num_bytes());
  if (scales_.load(state)) {
    device::enqueue_make_scales(memory, memory_, rules_, device::ScalesFrom::state);
    return for_parts(memory,
                     [&](const device::StepMemory& step, const device::ScaleMemory& scales) {
                       device::enqueue_make_codes(step, scales, rules_);
                     });
  }
  collect(memory);
  join();
  make(memory);
  if (setup_.scaling.initial_master != InitialMaster::dequantised || scales_.of_columns()) return;
  for_parts(memory, [&](const device::StepMemory& step, const device::ScaleMemory& scales) {
    device::enqueue_dequantize_masters(step, scales, rules_);
  });
}

template <class Body>
void DeviceScales::for_parts(const device::StepMemory& memory, const Body& body) const {
  for (const Part& part : table_.parts) {
    device::StepMemory step = memory;
    device::ScaleMemory scales = memory_;
    step.master += part.shift;
    scales.pieces += part.begin;
    scales.num_pieces = part.count;
    body(step, scales);
  }
}

void DeviceScales::collect(const device::StepMemory& memory) const {
  const Span<const std::uint32_t> elsewhere = std::as_const(scales_).elsewhere();
  if (!elsewhere.empty()) {  // otherwise the step before left zeros
    const std::vector<std::uint64_t> words(elsewhere.begin(), elsewhere.end());
    device_space().from_host(memory_.collected, words.data(),
                             scales_.collected().view().num_bytes());
  }
  for_parts(memory, [&](const device::StepMemory& step, const device::ScaleMemory& scales) {
    device::enqueue_collect_amax(step, scales, rules_);
  });
}

void DeviceScales::join() const {
  join_amax(setup_, comm_groups_, memory_.collected, memory_.num_blocks);
}

bool DeviceScales::joins() const { return joins_amax(setup_, comm_groups_); }

void DeviceScales::make(device::StepMemory memory) const {
  memory.param = codes_;
  device::enqueue_make_scales(memory, memory_, rules_, device::ScalesFrom::masters);
  for_parts(memory, [&](const device::StepMemory& step, const device::ScaleMemory& scales) {
    device::enqueue_make_codes(step, scales, rules_);
  });
}

}  // namespace zeroproof::cuda
