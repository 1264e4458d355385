#include "cuda/optimizer/state/state_blocks.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "cuda/host/operations.hpp"
#include "cuda/optimizer/params/joined_amax.hpp"

namespace zeroproof::cuda {
namespace {

constexpr std::uint32_t nan_amax = 0x7FFFFFFFU;
constexpr std::uint32_t infinite_state_amax = 0x7F800000U;

/// The recipe `current` of R22 for a block, as used by R25.
float scale_for(StateFormat format, std::uint32_t amax) {
  if (amax == 0 || amax >= infinite_state_amax) return 1;
  const float s = largest_of(format) / std::bit_cast<float>(amax);
  constexpr float most = std::numeric_limits<float>::max();
  return s > most ? most : s;
}

std::uint32_t amax_of(Span<const float> values) {
  std::uint32_t largest = 0;
  for (const float x : values) {
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(x) & nan_amax;
    largest = std::max(largest, magnitude > infinite_state_amax ? nan_amax : magnitude);
  }
  return largest;
}

// The casts by the type of the codes; e4m3 does not saturate, so that a moment that is not finite
// stays nonfinite.
void read_codes(const Exec& exec, Span<const bf16> codes, Span<float> x) {
  host::widen_bf16(exec, codes, x);
}
void read_codes(const Exec& exec, Span<const fp16> codes, Span<float> x) {
  host::widen_fp16(exec, codes, x);
}
void read_codes(const Exec& exec, Span<const e4m3> codes, Span<float> x) {
  host::widen_e4m3(exec, codes, x);
}
void write_codes(const Exec& exec, Span<const float> y, Span<bf16> codes) {
  host::cast_to_bf16(exec, y, codes);
}
void write_codes(const Exec& exec, Span<const float> y, Span<fp16> codes) {
  host::cast_to_fp16(exec, y, codes);
}
void write_codes(const Exec& exec, Span<const float> y, Span<e4m3> codes) {
  host::nonfinite_cast_to_e4m3(exec, y, codes);
}

template <class T>
Span<T> span_of(std::byte* data, const Piece& piece) {
  return {reinterpret_cast<T*>(data), static_cast<std::size_t>(piece.numel)};
}

/// Calls body(codes) with the codes of a piece, by their type.
template <class Body>
void visit_codes(std::byte* codes, StateFormat format, const Piece& piece, const Body& body) {
  switch (format) {
    case StateFormat::bf16:
      return body(span_of<bf16>(codes, piece));
    case StateFormat::fp16:
      return body(span_of<fp16>(codes, piece));
    case StateFormat::e4m3:
      return body(span_of<e4m3>(codes, piece));
    case StateFormat::fp32:
      break;
  }
}

/// Calls body(begin, count) for the parts of a run in each block, from its element `begin` on.
template <class Body>
void for_state_blocks(const OptimizerSetup& setup, const Piece& run, const Body& body) {
  const std::int64_t first = undistributed_begin(setup, run);
  for (std::int64_t begin = 0; begin < run.numel;) {
    const std::int64_t index = first + begin;
    const std::int64_t count =
        std::min(state_block_numel - index % state_block_numel, run.numel - begin);
    body(begin, count);
    begin += count;
  }
}

bool any_piece(const Piece& /*piece*/) { return true; }
bool any_buffer(const Piece& /*piece*/, BufferId /*buffer*/) { return true; }

}  // namespace

/// fp32 values of a piece, for the buffers not stored in fp32.
template <std::int64_t most>
struct StateBlocks::Tile {
  alignas(64) std::array<float, most> master;
  alignas(64) PerSlot<std::array<float, most>> kept;

  Span<const float> part(StateSlot slot, std::int64_t begin, std::int64_t count) const {
    return {kept[slot].data() + begin, static_cast<std::size_t>(count)};
  }
};

StateBlocks::StateBlocks(const OptimizerSetup& setup, const std::vector<Piece>& pieces,
                         const RuleState& state, const CountedBuffer& master,
                         const StateSplit* split)
    : setup_(setup),
      state_(state),
      own_(setup, state, master, split),
      whole_blocks_({}),
      fragments_({}) {
  if (!has_any_scales()) {
    whole_blocks_ = host::PieceLoop(pieces);
    return;
  }
  std::vector<Piece> whole, fragments;
  for (const Piece& run : state_ranges(setup, pieces)) cut_at_blocks(setup, run, whole, fragments);
  whole_blocks_ = host::PieceLoop(whole);
  fragments_ = host::PieceLoop(fragments);
  for (const Piece& fragment : fragments) {
    waits_at_.push_back(num_waiting_);
    num_waiting_ += fragment.numel;
  }
  cut_blocks_ = cut_state_blocks(setup);
}

bool StateBlocks::has_any_scales() const {
  for (const StateSlot slot : all_state_slots) {
    if (has_scales_at(slot)) return true;
  }
  return false;
}

void StateBlocks::update(const Exec& exec, const Wanted& wanted, const Change& update,
                         const Round& round, const Stored& stored) const {
  pass(exec, true, wanted, {}, update, round, stored);
}

void StateBlocks::load(const Exec& exec, const Chosen& of_codes, const Change& read,
                       const Round& round) const {
  pass(exec, false, any_piece, of_codes, read, round, any_buffer);
}

void StateBlocks::update_at(const StoredPlace& place, const host::PieceLoop& loop, const Exec& exec,
                            const Wanted& wanted, const Change& update, const Round& round,
                            const Stored& stored) const {
  pass_whole(place, loop, exec, true, wanted, {}, update, round, stored);
}

void StateBlocks::load_at(const StoredPlace& place, const host::PieceLoop& loop, const Exec& exec,
                          const Chosen& of_codes, const Change& read, const Round& round) const {
  pass_whole(place, loop, exec, false, any_piece, of_codes, read, round, any_buffer);
}

void StateBlocks::read_tiles(const StoredPlace& place, const Exec& exec, const Piece& block,
                             const Change& read) const {
  Tile<tile_numel> tile;
  for (std::int64_t begin = 0; begin < block.numel; begin += tile_numel) {
    const Piece piece = block.part(begin, tile_numel);
    read(exec, piece, open(place, exec, piece, true, tile));
  }
}

void StateBlocks::pass(const Exec& exec, bool reads, const Wanted& wanted, const Chosen& of_codes,
                       const Change& change, const Round& round, const Stored& stored) const {
  pass_whole(own_, whole_blocks_, exec, reads, wanted, of_codes, change, round, stored);
  if (!cut_blocks_.empty()) pass_fragments(exec, reads, wanted, of_codes, change, round, stored);
}

void StateBlocks::pass_whole(const StoredPlace& place, const host::PieceLoop& loop,
                             const Exec& exec, bool reads, const Wanted& wanted,
                             const Chosen& of_codes, const Change& change, const Round& round,
                             const Stored& stored) const {
  loop.run(exec, [&](const Exec& serial, const Piece& block) {
    if (!wanted(block)) return;
    Tile<tile_numel> tile;
    for (std::int64_t begin = 0; begin < block.numel; begin += tile_numel) {
      const Piece piece = block.part(begin, tile_numel);
      change(serial, piece, open(place, serial, piece, reads, tile));
      close(place, serial, piece, true, of_codes, round, stored, tile);
    }
  });
}

void StateBlocks::pass_fragments(const Exec& exec, bool reads, const Wanted& wanted,
                                 const Chosen& of_codes, const Change& change, const Round& round,
                                 const Stored& stored) const {
  const auto wait_at = [&](const Piece& fragment) {  // one of those blocks
    return waits_at_[&fragment - fragments_.blocks().data()];
  };
  PerSlot<std::vector<float>> waiting;
  for (const StateSlot slot : all_state_slots) {
    if (has_scales_at(slot)) waiting[slot].resize(num_waiting_);
  }
  fragments_.run(exec, [&](const Exec& serial, const Piece& fragment) {
    if (!wanted(fragment)) return;
    Tile<state_block_numel> tile;
    change(serial, fragment, open(own_, serial, fragment, reads, tile));
    close(own_, serial, fragment, false, of_codes, round, stored, tile);
    for (const StateSlot slot : all_state_slots) {
      if (has_scales_at(slot))
        std::ranges::copy(tile.part(slot, 0, fragment.numel),
                          waiting[slot].begin() + wait_at(fragment));
    }
  });
  const std::vector<std::uint64_t> words = joined_amax(wanted, waiting);
  fragments_.run(exec, [&](const Exec& serial, const Piece& fragment) {
    if (!wanted(fragment)) return;
    for (const StateSlot slot : all_state_slots) {
      if (!has_scales_at(slot) || of_codes[slot] || !stored(fragment, buffer_of(slot))) continue;
      const Span<const float> values(waiting[slot].data() + wait_at(fragment),
                                     static_cast<std::size_t>(fragment.numel));
      store_block(own_, serial, slot, fragment, values,
                  static_cast<std::uint32_t>(words[word_of(slot, fragment)]));
    }
  });
}

std::vector<std::uint64_t> StateBlocks::joined_amax(
    const Wanted& wanted, const PerSlot<std::vector<float>>& waiting) const {
  std::vector<std::uint64_t> words;
  for (const StateSlot slot : all_state_slots)
    words.resize(words.size() + (has_scales_at(slot) ? cut_blocks_.size() : 0));
  for (std::size_t f = 0; f < waits_at_.size(); ++f) {
    const Piece& fragment = fragments_.blocks()[f];
    if (!wanted(fragment)) continue;
    for (const StateSlot slot : all_state_slots) {
      if (!has_scales_at(slot)) continue;
      const Span<const float> values(waiting[slot].data() + waits_at_[f],
                                     static_cast<std::size_t>(fragment.numel));
      std::uint64_t& word = words[word_of(slot, fragment)];
      word = std::max<std::uint64_t>(word, amax_of(values));
    }
  }
  const CommGroups comm_groups{setup_.comm, setup_.replicas, setup_.tp};
  join_amax(setup_, comm_groups, words.data(), numel(Span<const std::uint64_t>(words)));
  return words;
}

std::size_t StateBlocks::word_of(StateSlot slot, const Piece& fragment) const {
  std::size_t before = 0;
  for (const StateSlot other : all_state_slots)
    before += other < slot && has_scales_at(other) ? cut_blocks_.size() : 0;
  const auto at = std::ranges::lower_bound(
      cut_blocks_, undistributed_begin(setup_, fragment) / state_block_numel);
  return before + static_cast<std::size_t>(at - cut_blocks_.begin());
}

template <class AnyTile>
host::FusedState StateBlocks::open(const StoredPlace& place, const Exec& exec, const Piece& piece,
                                   bool reads, AnyTile& tile) const {
  const auto count = static_cast<std::size_t>(piece.numel);
  host::FusedState state{};
  if (setup_.state_formats.master == MasterFormat::bf16) {
    state.master = {tile.master.data(), count};
    if (reads) read_codes(exec, span_of<bf16>(place.master(piece), piece), state.master);
  } else {
    state.master = span_of<float>(place.master(piece), piece);
  }
  for (const StateSlot slot : all_state_slots) {
    if (!state_.kept(slot)) continue;
    if (state_.format(slot) == StateFormat::fp32) {
      state.slots[slot] = span_of<float>(place.codes(slot, piece), piece);
      continue;
    }
    state.slots[slot] = {tile.kept[slot].data(), count};
    if (!reads) continue;
    visit_codes(place.codes(slot, piece), state_.format(slot), piece,
                [&](auto codes) { read_codes(exec, codes, state.slots[slot]); });
    if (!has_scales_at(slot)) continue;
    for_state_blocks(setup_, piece, [&](std::int64_t begin, std::int64_t in_block) {
      const float scale_inv = place.scale(slot, piece.part(begin, in_block));
      float* const x = tile.kept[slot].data() + begin;
      for (std::int64_t k = 0; k < in_block; ++k) x[k] = x[k] * scale_inv;
    });
  }
  return state;
}

template <class AnyTile>
void StateBlocks::close(const StoredPlace& place, const Exec& exec, const Piece& piece,
                        bool whole_blocks, const Chosen& of_codes, const Round& round,
                        const Stored& stored, const AnyTile& tile) const {
  if (setup_.state_formats.master == MasterFormat::bf16 && stored(piece, BufferId::master)) {
    round(exec, piece, {tile.master.data(), static_cast<std::size_t>(piece.numel)},
          span_of<bf16>(place.master(piece), piece));
  }
  for (const StateSlot slot : all_state_slots) {
    if (!state_.kept(slot) || state_.format(slot) == StateFormat::fp32) continue;
    if (!stored(piece, buffer_of(slot))) continue;
    if (!has_scales_at(slot) || of_codes[slot]) {
      visit_codes(place.codes(slot, piece), state_.format(slot), piece,
                  [&](auto codes) { write_codes(exec, tile.part(slot, 0, piece.numel), codes); });
      continue;
    }
    if (!whole_blocks) continue;
    for_state_blocks(setup_, piece, [&](std::int64_t begin, std::int64_t in_block) {
      const Span<const float> values = tile.part(slot, begin, in_block);
      store_block(place, exec, slot, piece.part(begin, in_block), values, amax_of(values));
    });
  }
}

void StateBlocks::store_block(const StoredPlace& place, const Exec& exec, StateSlot slot,
                              const Piece& block, Span<const float> values,
                              std::uint32_t amax) const {
  const float scale = scale_for(state_.format(slot), amax);
  place.scale(slot, block) = 1.0F / scale;
  alignas(64) std::array<float, state_block_numel> y;
  for (std::size_t k = 0; k < values.size(); ++k) y[k] = values[k] * scale;
  visit_codes(place.codes(slot, block), state_.format(slot), block, [&](auto codes) {
    write_codes(exec, Span<const float>(y.data(), values.size()), codes);
  });
}

}  // namespace zeroproof::cuda
