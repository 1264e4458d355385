#include "cuda/comm/memory/move_tables.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

namespace zeroproof::cuda {
namespace {

using device::Move;

/// Long moves as several ones, so that many blocks of threads share them. All but the first begin
/// at a multiple of 16 bytes in their target.
std::vector<Move> pieces_of(Span<const Move> moves) {
  std::vector<Move> pieces;
  for (const Move& move : moves) {
    auto* to = static_cast<std::byte*>(move.to);
    const auto* from = static_cast<const std::byte*>(move.from);
    for (std::int64_t rest = move.num_bytes; rest > 0;) {
      const auto past = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to) % 16);
      const std::int64_t length = std::min(rest, device::batched_copy_piece_bytes - past);
      pieces.push_back({to, from, length});
      to += length;
      from += length;
      rest -= length;
    }
  }
  return pieces;
}

void copy_each(Span<const Move> moves) {
  for (const Move& move : moves) device::enqueue_on_device(move.to, move.from, move.num_bytes);
}

bool same(const std::vector<Move>& a, const std::vector<Move>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(Move)) == 0;
}

}  // namespace

MoveTable::MoveTable(Span<const Move> moves) : moves_(numel(moves)) {
  device::stage_to_device(moves_.data(), moves.data(), moves_.num_bytes());
}

void MoveTable::enqueue() const { device::enqueue_batched_copy(moves_.data(), moves_.count()); }

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
  auto table = std::make_shared<const MoveTable>(pieces_of(wanted_));
  if (kept_bytes_ + table->num_bytes() > most_kept_bytes_ || kept_.contains(key)) {
    kept_.clear();
    kept_bytes_ = 0;
  }
  kept_[key] = {wanted_, table};
  kept_bytes_ += table->num_bytes();
  return table;
}

}  // namespace zeroproof::cuda
