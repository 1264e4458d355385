#include "cuda/comm/memory/move_tables.hpp"

#include <cstring>
#include <utility>

namespace zeroproof::cuda {
namespace {

using device::Move;

/// Holds the tables of all moves of a step many times over; a larger total means that addresses
/// change from step to step, and no table is found again.
constexpr std::int64_t most_kept_bytes = std::int64_t{64} << 20;

std::int64_t table_bytes(std::int64_t count) {
  return count * static_cast<std::int64_t>(sizeof(Move));
}

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

MoveTable::MoveTable(Span<const Move> moves)
    : count_(numel(moves)), memory_(scratch_bytes(count_) + table_bytes(count_)) {
  device::stage_to_device(memory_.data() + scratch_bytes(count_), moves.data(),
                          table_bytes(count_));
}

void MoveTable::enqueue() const {
  const auto* const moves = reinterpret_cast<const Move*>(memory_.data() + scratch_bytes(count_));
  device::enqueue_batched_copy(moves, count_, memory_.data());
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
    // Replays and later calls may run on different streams, and a table serves one batch at a time.
    kept_bytes_ -= table->num_bytes();
    kept_.erase(key);
    device::keep_with_graph(table);
  } else if (!table) {
    table = make(key);
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

std::shared_ptr<const MoveTable> MoveTables::make(std::uint64_t key) {
  auto table = std::make_shared<const MoveTable>(wanted_);
  if (kept_bytes_ + table->num_bytes() > most_kept_bytes || kept_.contains(key)) {
    kept_.clear();
    kept_bytes_ = 0;
  }
  kept_[key] = {wanted_, table};
  kept_bytes_ += table->num_bytes();
  return table;
}

}  // namespace zeroproof::cuda
