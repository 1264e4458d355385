#include "cuda/optimizer/state_loader.hpp"

#include <algorithm>
#include <mutex>

#include "common/step/setup_agreement.hpp"
#include "cuda/optimizer/optimizer_checks.hpp"

namespace zeroproof::cuda {

void StateLoader::load(const FullState& state) {
  require_state(layout_.setup, state);
  const auto whole = [&](BufferId id) {
    if (id == BufferId::master) return state.master;
    if (const std::optional<StateSlot> slot = slot_of(id)) return state.slots[*slot];
    return state.slot_scales[slot_of_scales(id).value()];
  };
  Exec exec = layout_.setup.exec;
  if (memory_.space().kind == Space::device)
    exec.num_threads = 1;  // the stream belongs to this thread
  const auto has = [&](BufferId id) { return !whole(id).empty(); };
  const auto read = [&](const MemorySpace& space, BufferId id, std::int64_t begin,
                        Span<float> local) {
    space.from_host(local.data(), whole(id).data() + begin,
                    static_cast<std::int64_t>(local.size_bytes()));
  };
  load(exec, state, {has, read});
}

void StateLoader::load(const StateSource& source) {
  // Elements at a time. Resident pieces have no more; pieces of stored state on a device do.
  constexpr auto most = static_cast<std::size_t>(host::block_numel);
  FullState counters;
  const std::vector<std::uint64_t> tensor_steps = source.tensor_steps();
  counters.tensor_steps = tensor_steps;
  counters.applied_steps = source.applied_steps();
  counters.scaler = source.scaler();
  const std::vector<float> param_scale = source.param_scale();
  const std::vector<std::uint32_t> amax_history = source.amax_history();
  counters.param_scale = param_scale;
  counters.amax_history = amax_history;
  require_counters(layout_.setup, counters);
  Exec exec = layout_.setup.exec;
  exec.num_threads = 1;  // a source is read from front to back
  std::vector<float> values;
  std::mutex reading;  // or by the threads that store state in fewer bits, in their order
  const auto has = [&](BufferId id) { return source.has(id); };
  const auto read = [&](const MemorySpace& space, BufferId id, std::int64_t begin,
                        Span<float> local) {
    const std::lock_guard one_reads(reading);
    for (std::size_t done = 0; done < local.size(); done += values.size()) {
      values.resize(std::min(most, local.size() - done));
      source.read(id, begin + static_cast<std::int64_t>(done), values);
      space.from_host(local.data() + done, values.data(),
                      static_cast<std::int64_t>(values.size() * sizeof(float)));
    }
  };
  load(exec, counters, {has, read});
}

void StateLoader::load(const Exec& exec, const FullState& counters, const Values& values) {
  require_same_setup(layout_.setup, counters);
  if (!layout_.setup.state_formats.plain()) return load_stored(counters, values);
  load_resident(exec, values);
  if (layout_.split) load_offloaded(values);
  step_.load(counters);
}

void StateLoader::load_stored(const FullState& counters, const Values& values) {
  const MemorySpace& space = memory_.space();
  const RuleState& rule = memory_.state;
  StateBlocks::Chosen of_codes{};
  for (const StateSlot slot : all_state_slots) {
    const BufferId scales = scales_of(slot);
    of_codes[slot] = rule.kept(slot) && has_scales(rule.format(slot)) && values.has(scales);
    if (!of_codes[slot]) continue;
    Span<float> rest = rule.scales(slot).as<float>();
    for (const FlatRange& blocks : rule.blocks().ranges()) {
      const auto count = static_cast<std::size_t>(blocks.numel());
      values.read(space, scales, blocks.begin, rest.first(count));
      rest = rest.subspan(count);
    }
  }
  const auto read_into = [&](const MemorySpace& to) {
    return [&, at = &to](const Exec&, const Piece& piece, const host::FusedState& state) {
      values.read(*at, BufferId::master, piece.global_begin, state.master);
      for (const StateSlot slot : all_state_slots) {
        if (rule.kept(slot))
          values.read(*at, buffer_of(slot), piece.global_begin, state.slots[slot]);
      }
    };
  };
  if (layout_.split) {
    const auto read_scales = [&](StateSlot slot, std::int64_t block, Span<float> scales) {
      values.read(host_space(), scales_of(slot), block, scales);
    };
    offload_step_->fill_offloaded(counters, of_codes, read_into(host_space()), read_scales);
  }
  step_.load_stored(counters, of_codes, read_into(space));
}

void StateLoader::load_resident(const Exec& exec, const Values& values) {
  const host::PieceLoop& resident = layout_.split ? layout_.split->resident() : layout_.pieces;
  const MemorySpace& space = memory_.space();
  const RuleState& rule = memory_.state;
  resident.run_joined(exec, any_tensors, [&](const Exec&, const Piece& piece) {
    Piece here = piece;
    if (layout_.split) here.local_begin = layout_.split->place(piece.local_begin);
    values.read(space, BufferId::master, piece.global_begin, part(memory_.master, here));
    for (const StateSlot slot : all_state_slots) {
      if (rule.kept(slot))
        values.read(space, buffer_of(slot), piece.global_begin, rule.part(slot, here));
    }
  });
}

void StateLoader::load_offloaded(const Values& values) {
  const std::vector<OffloadedBuffer> buffers = offloaded_buffers(layout_.setup);
  memory_.offloaded->for_chunks(
      OffloadedState::Use::fill, [&](const StateSplit::Chunk& chunk, const ChunkState& to) {
        for_values(buffers, *layout_.split, chunk, to,
                   [&](BufferId id, const Piece& piece, Span<float> of_piece) {
                     values.read(host_space(), id, piece.global_begin, of_piece);
                   });
      });
}

}  // namespace zeroproof::cuda
