#include "cuda/memory/move_tables.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <exception>
#include <utility>

namespace zeroproof::cuda {
namespace {

using device::Move;

constexpr std::size_t most_slots = 8;
constexpr std::int64_t least_slot_moves = 256;
/// Tables of all moves of a step, many times over; beyond it addresses change from step to step, and no table is found.
constexpr std::int64_t most_kept_bytes = std::int64_t{64} << 20;

std::int64_t table_bytes(std::int64_t count) { return count * static_cast<std::int64_t>(sizeof(Move)); }

std::int64_t scratch_bytes(std::int64_t count) {
  constexpr std::int64_t alignment = alignof(Move);
  return (device::batched_copy_scratch_bytes(count) + alignment - 1) / alignment * alignment;
}

void copy_each(Span<const Move> moves) {
  for (const Move& move : moves) device::enqueue_on_device(move.to, move.from, move.num_bytes);
}

bool same(const std::vector<Move>& a, const std::vector<Move>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(Move)) == 0;
}

}  // namespace

MoveTable::MoveTable(std::int64_t count)
    : count_(count), memory_(scratch_bytes(count) + table_bytes(count)) {}

void MoveTable::fill(const Move* pinned) const {
  device::enqueue_to_device(memory_.data() + scratch_bytes(count_), pinned, table_bytes(count_));
}

void MoveTable::enqueue() const {
  std::byte* const scratch = memory_.data();
  device::enqueue_batched_copy(reinterpret_cast<const Move*>(scratch + scratch_bytes(count_)), count_,
                               scratch);
}

MoveTables::~MoveTables() {
  for (const Slot& slot : slots_) {
    try {
      device::wait_for_event(slot.read);
    } catch (const std::exception&) {  // an error of the device that lasts: the next call that can reports it
    }
  }
}

void MoveTables::enqueue(Span<const Move> moves) {
  wanted_.clear();
  for (const Move& move : moves) {
    if (move.num_bytes > 0) wanted_.push_back(move);
  }
  if (wanted_.size() <= few_moves) return copy_each(wanted_);
  const std::uint64_t key = digest(wanted_);
  std::shared_ptr<const MoveTable> table = find(key);
  if (device::capturing()) {
    if (!table) return copy_each(wanted_);
    // Replays and later calls may be under way on different streams, and a table serves one batch at a time.
    kept_bytes_ -= table->num_bytes();
    kept_.erase(key);
    device::keep_with_graph(table);
  } else if (!table) {
    table = make(key);
    if (!table) return copy_each(wanted_);
  }
  table->enqueue();
}

/// FNV-1a over words instead of bytes.
std::uint64_t MoveTables::digest(const Moves& moves) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  const auto add = [&hash](std::uint64_t word) {
    hash = (hash ^ word) * 0x100000001B3ULL;
    hash ^= hash >> 32;
  };
  for (const Move& move : moves) {
    add(reinterpret_cast<std::uintptr_t>(move.to));
    add(reinterpret_cast<std::uintptr_t>(move.from));
    add(static_cast<std::uint64_t>(move.num_bytes));
  }
  return hash;
}

std::shared_ptr<const MoveTable> MoveTables::find(std::uint64_t key) {
  const auto found = kept_.find(key);
  if (found == kept_.end() || !same(found->second.moves, wanted_)) return nullptr;
  return found->second.table;
}

MoveTables::Slot* MoveTables::free_slot(std::int64_t count) {
  const auto wanted =
      static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max(count, least_slot_moves))));
  Slot* too_small = nullptr;
  for (Slot& slot : slots_) {
    if (!slot.read.reached()) continue;
    if (slot.memory.count() >= count) return &slot;
    too_small = &slot;
  }
  if (slots_.size() < most_slots) return &slots_.emplace_back(Slot{PinnedArray<Move>(wanted), {}});
  if (too_small != nullptr) too_small->memory = PinnedArray<Move>(wanted);
  return too_small;
}

std::shared_ptr<const MoveTable> MoveTables::make(std::uint64_t key) {
  const std::int64_t count = numel(Span<const Move>(wanted_));
  Slot* const slot = free_slot(count);
  if (slot == nullptr) return nullptr;
  auto table = std::make_shared<const MoveTable>(count);
  std::ranges::copy(wanted_, slot->memory.data());
  table->fill(slot->memory.data());
  slot->read.record();
  if (kept_bytes_ + table->num_bytes() > most_kept_bytes || kept_.contains(key)) {
    kept_.clear();
    kept_bytes_ = 0;
  }
  kept_[key] = {wanted_, table};
  kept_bytes_ += table->num_bytes();
  return table;
}

}  // namespace zeroproof::cuda
