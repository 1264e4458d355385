#include "cuda/optimizer/device/device_state.hpp"

#include <algorithm>
#include <cstddef>

#include "cuda/optimizer/device/device_tables.hpp"
#include "cuda/optimizer/params/joined_amax.hpp"
#include "cuda/optimizer/state/state_ranges.hpp"

namespace zeroproof::cuda {
namespace {

std::int64_t num_scaled(const RuleState& state) {
  return std::ranges::count_if(all_state_slots, [&](StateSlot slot) {
    return state.kept(slot) && has_scales(state.format(slot));
  });
}

/// Parts of ranges, one per block of threads; they end at boundaries of state blocks.
std::vector<Piece> parts_of(const OptimizerSetup& setup, const std::vector<Piece>& runs) {
  constexpr std::int64_t most = device::StepPiece::most_numel;
  std::vector<Piece> parts;
  for (const Piece& run : runs) {
    const std::int64_t first = undistributed_begin(setup, run);
    for (std::int64_t begin = 0; begin < run.numel; begin += parts.back().numel)
      parts.push_back(run.part(begin, most - (first + begin) % state_block_numel));
  }
  return parts;
}

}  // namespace

DeviceState::Tables DeviceState::tables_of(const RankShard& shard) {
  const OptimizerSetup& setup = shard.setup;
  const bool scaled = num_scaled(shard.state) > 0;
  const StateSplit* const split = shard.split;
  const std::vector<Piece> pieces = resident_pieces(*setup.layout, shard.ranges, split);
  const std::vector<std::int64_t> shared =
      scaled ? cut_state_blocks(setup) : std::vector<std::int64_t>{};
  Tables tables{parts_of(setup, scaled ? state_ranges(setup, pieces) : pieces),
                {},
                {},
                {},
                static_cast<std::int64_t>(shared.size()),
                0};
  for (Piece& part : tables.parts) {
    const std::int64_t local = part.local_begin;
    if (split != nullptr) part.local_begin = split->place(local);  // location of its state
    const std::int64_t shift = local - part.local_begin;
    if (tables.stretches.empty() || tables.stretches.back().shift != shift)
      tables.stretches.push_back({static_cast<std::int64_t>(tables.pieces.size()), 0, shift});
    ++tables.stretches.back().num_pieces;
    const std::int64_t begin = undistributed_begin(setup, part);
    const std::int64_t first = begin / state_block_numel;
    const std::int64_t last = (begin + part.numel - 1) / state_block_numel;
    const std::int64_t first_scale = scaled ? shard.state.blocks().place(first) : 0;
    device::StoredPiece piece{step_piece(setup, part), first_scale,
                              static_cast<std::int32_t>(begin % state_block_numel)};
    const auto fragment_of = [&](std::int64_t block) {
      const auto word = std::ranges::lower_bound(shared, block);
      if (word == shared.end() || *word != block) return -1;
      const std::int64_t from = std::max(block * state_block_numel - begin, std::int64_t{0});
      const std::int64_t end = (block + 1) * state_block_numel - begin;
      const Piece own = part.part(from, end - from);
      tables.fragments.push_back({own.local_begin, own.numel, own.tensor,
                                  first_scale + block - first, word - shared.begin(),
                                  tables.num_waiting});
      tables.num_waiting += own.numel;
      return static_cast<int>(tables.fragments.size()) - 1;
    };
    piece.head = fragment_of(first);
    piece.tail = last == first ? piece.head : fragment_of(last);
    tables.pieces.push_back(piece);
  }
  return tables;
}

DeviceState::DeviceState(const RankShard& shard, const CommGroups& comm_groups)
    : setup_(shard.setup),
      comm_groups_(comm_groups),
      kept_(kept_slots(setup_.hyper)),
      tables_(tables_of(shard)),
      pieces_(device_space(), Span<const device::StoredPiece>(tables_.pieces)),
      fragments_(device_space(), Span<const device::StateFragment>(tables_.fragments)),
      waiting_(device_space(), num_scaled(shard.state) * tables_.num_waiting),
      collected_(device_space(), num_scaled(shard.state) * tables_.num_words),
      memory_{.pieces = pieces_.data(),
              .fragments = fragments_.data(),
              .master = shard.master->data(),
              .master_is_bf16 = setup_.state_formats.master == MasterFormat::bf16,
              .num_pieces = pieces_.count(),
              .num_fragments = fragments_.count()} {
  std::int64_t scaled = 0;
  for (std::size_t k = 0; k < kept_.size(); ++k) {
    device::StoredBuffer& buffer = memory_.buffers[k];
    buffer.codes = shard.state[kept_[k]].data();
    buffer.format = shard.state.format(kept_[k]);
    if (!has_scales(buffer.format)) continue;
    buffer.scale_inv = shard.state.scales(kept_[k]).as<float>().data();
    if (tables_.num_words > 0) buffer.collected = collected_.data() + scaled * tables_.num_words;
    if (fragments_.count() > 0) buffer.waiting = waiting_.data() + scaled * tables_.num_waiting;
    ++scaled;
  }
}

void DeviceState::clear_collected() const {
  if (collected_.count() > 0) collected_.fill(0);
}

void DeviceState::load(const StateBlocks::Chosen& of_codes, const StateBlocks::Change& read,
                       device::StepMemory memory, const device::StepRules& rules) const {
  memory.has_grad = nullptr;  // every tensor
  constexpr std::int64_t most = device::StepPiece::most_numel;
  const SpaceArray<float> staged(device_space(),
                                 most * (1 + static_cast<std::int64_t>(kept_.size())));
  clear_collected();
  for (std::size_t n = 0; n < tables_.parts.size(); ++n) {
    const Piece& part = tables_.parts[n];
    const auto numel = static_cast<std::size_t>(part.numel);
    host::FusedState state;
    state.master = {staged.data(), numel};
    device::LoadedValues values{staged.data()};
    for (std::size_t k = 0; k < kept_.size(); ++k) {
      const Span<float> of_buffer(staged.data() + (static_cast<std::int64_t>(k) + 1) * most, numel);
      state.slots[kept_[k]] = of_buffer;
      values.buffers[k] = of_buffer.data();
      values.are_codes[k] = of_codes[kept_[k]];
    }
    read(setup_.exec, part, state);
    device::enqueue_store_loaded(memory, memory_, rules, static_cast<std::int64_t>(n), values);
  }
  device::StoredMemory rest = memory_;
  for (std::size_t k = 0; k < kept_.size(); ++k) {
    if (of_codes[kept_[k]]) rest.buffers[k].codes = nullptr;
  }
  if (joins()) join();
  device::enqueue_store_fragments(memory, rest);
}

void DeviceState::for_stretches(const device::StepMemory& memory,
                                const EnqueuePass& enqueue) const {
  for (const Stretch& stretch : tables_.stretches) {
    device::StepMemory step = memory;
    device::StoredMemory stored = memory_;
    step.grad += stretch.shift;
    step.param =
        static_cast<std::byte*>(memory.param) + stretch.shift * num_bytes(setup_.param_dtype);
    stored.pieces += stretch.first_piece;
    stored.num_pieces = stretch.num_pieces;
    enqueue(step, stored);
  }
}

void DeviceState::trust_norms(const device::StepMemory& memory, const device::StepRules& rules,
                              bool fused) const {
  for_stretches(memory, [&](const device::StepMemory& step, const device::StoredMemory& stored) {
    device::enqueue_stored_trust_norms(step, stored, rules, fused);
  });
}

void DeviceState::update(const device::StepMemory& memory, const device::StepRules& rules,
                         bool fused) const {
  clear_collected();
  for_stretches(memory, [&](const device::StepMemory& step, const device::StoredMemory& stored) {
    fused ? device::enqueue_stored_fused_update(step, stored, rules)
          : device::enqueue_stored_update(step, stored, rules);
  });
}

void DeviceState::copy_masters(const device::StepMemory& memory) const {
  for_stretches(memory, device::enqueue_copy_masters);
}

bool DeviceState::joins() const {
  return tables_.num_words > 0 && joins_amax(setup_, comm_groups_);
}

void DeviceState::join() const {
  join_amax(setup_, comm_groups_, collected_.data(), collected_.count());
}

void DeviceState::finish(const device::StepMemory& memory) const {
  device::enqueue_store_fragments(memory, memory_);
}

}  // namespace zeroproof::cuda
