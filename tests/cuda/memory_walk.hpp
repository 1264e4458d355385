#pragma once
// The walk of cuda/README.md, "Memory of a step", programmed from its text, without native sums and layered sources.

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::tests {

struct Shape {
  OptimizerSetup setup;
  int instances = 1, ranks = 1;
  int instance = 0, rank = 0;
  std::int64_t replicated = 0;  ///< tensors [0, replicated) are TP-replicated
  int tp = 1;
};

/// Entries of a stack, as (level, index).
using Stack = std::vector<std::pair<int, std::int64_t>>;

/// Entries the new leaf is combined with.
inline int push(Stack& stack, std::int64_t unit) {
  std::pair<int, std::int64_t> node{0, unit};
  int combined = 0;
  while (!stack.empty() && node.second % 2 == 1 && stack.back() == std::pair(node.first, node.second - 1)) {
    stack.pop_back();
    node = {node.first + 1, node.second / 2};
    ++combined;
  }
  stack.push_back(node);
  return combined;
}

class Walk {
 public:
  explicit Walk(const Shape& shape)
      : shape_(shape), setup_(shape.setup), map_(*shape.setup.shards), layout_(*shape.setup.layout) {
    at_rest();
    gather();
  }

  MemoryUse use() const { return use_; }

  void step() {
    const std::int64_t holders = std::int64_t{shape_.ranks} * shape_.instances / setup_.cp;
    stacks_.assign(map_.buckets().size(), {});
    if (setup_.grad_sum == GradSum::binned) {
      for (std::size_t b = 0; b < stacks_.size(); ++b) nodes(bins(kept() ? whole(b) : own(b)));
    }
    for (std::int64_t i = 0; i < (setup_.micro_batches + holders - 1) / holders; ++i) {
      for (std::size_t b = 0; b < stacks_.size(); ++b) one_leaf(b, i);
    }
    finish();
    gather();
  }

 private:
  // Ledger and wires.
  void add(MemoryClass kind, std::int64_t bytes) {
    const auto k = static_cast<std::size_t>(kind);
    use_.now[k] += bytes;
    use_.total_now += bytes;
    use_.peak[k] = std::max(use_.peak[k], use_.now[k]);
    use_.total_peak = std::max(use_.total_peak, use_.total_now);
  }
  void nodes(std::int64_t bytes) { add(MemoryClass::grad_nodes, bytes); }
  void new_node(std::int64_t bytes) {
    if (spare_[bytes] > 0) {
      --spare_[bytes];
    } else {
      nodes(bytes);
    }
  }
  void take(std::int64_t& wire, std::int64_t bytes) {
    if (wire >= bytes) return;
    free(wire);
    add(MemoryClass::wire, bytes);
    wire = bytes;
  }
  void free(std::int64_t& wire) {
    add(MemoryClass::wire, -wire);
    wire = 0;
  }

  // Names.
  std::int64_t whole(std::size_t b) const { return map_.buckets()[b].numel(); }
  std::int64_t part(std::size_t b, int r) const { return map_.owned_numel(b, r); }
  std::int64_t own(std::size_t b) const { return part(b, shape_.rank); }
  bool split(std::size_t b, int r) const {
    const std::vector<FlatRange>& ranges = map_.owned(b, r);
    return !ranges.empty() && ranges.back().end - ranges.front().begin != part(b, r);
  }
  bool kept() const { return setup_.stage < 2; }
  static std::int64_t bins(std::int64_t k) { return 8 * k + (k + 3) / 4 * 4; }
  std::int64_t replicated(std::size_t b) const {
    std::int64_t numel = 0;
    for (const Piece& piece : layout_.pieces({map_.buckets()[b]})) {
      if (shape_.tp > 1 && piece.tensor < shape_.replicated) numel += piece.numel;
    }
    return numel;
  }
  std::vector<std::int64_t> units(int instance, int rank) const {
    const std::int64_t data_rank = std::int64_t{instance} * shape_.ranks + rank;
    const std::int64_t holders = std::int64_t{shape_.ranks} * shape_.instances / setup_.cp;
    const std::int64_t holder = data_rank / setup_.cp;
    std::vector<std::int64_t> all;
    for (std::int64_t j = 0; j < setup_.micro_batches; ++j) {
      const bool mine = strided() ? j % holders == holder
                                  : j >= setup_.micro_batches * holder / holders &&
                                        j < setup_.micro_batches * (holder + 1) / holders;
      if (mine) all.push_back(j * setup_.cp + data_rank % setup_.cp);
    }
    return all;
  }
  bool strided() const {
    return setup_.order == MicroBatchOrder::strided ||
           (setup_.order == MicroBatchOrder::by_stage && setup_.stage >= 2);
  }
  std::int64_t left(int r) const { return entries(units(shape_.instance, r)); }
  std::int64_t left_of_instance(int i) const {
    std::vector<std::int64_t> all;
    for (int r = 0; r < shape_.ranks; ++r) {
      for (const std::int64_t u : units(i, r)) all.push_back(u);
    }
    std::ranges::sort(all);
    return entries(all);
  }
  static std::int64_t entries(const std::vector<std::int64_t>& of_units) {
    Stack stack;
    for (const std::int64_t u : of_units) push(stack, u);
    return static_cast<std::int64_t>(stack.size());
  }

  void at_rest() {
    const std::int64_t own_all = setup_.stage == 0 ? layout_.padded_numel() : map_.shard_numel(shape_.rank);
    const std::int64_t p = num_bytes(setup_.param_dtype);
    add(MemoryClass::master, 4 * own_all);
    add(MemoryClass::state, 8 * own_all);
    add(MemoryClass::param_shard, p * own_all);
    add(MemoryClass::grad_sum, 4 * own_all);
    std::int64_t full = layout_.padded_numel();
    if (setup_.stage == 3) {
      full = 0;
      for (const TensorSlot& slot : layout_.tensors()) {
        if (slot.numel <= setup_.persistent_numel) full += slot.numel;
      }
    }
    add(MemoryClass::param_full, p * full);
  }

  void one_leaf(std::size_t b, std::int64_t i) {
    const auto unit = [&](int r) {
      const std::vector<std::int64_t> all = units(shape_.instance, r);
      return static_cast<std::size_t>(i) < all.size() ? all[static_cast<std::size_t>(i)] : -1;
    };
    const std::int64_t g = num_bytes(setup_.leaf_dtype);
    const std::int64_t n = replicated(b);
    const std::int64_t w = n > 0 ? 4 : g;
    const bool mine = unit(shape_.rank) >= 0;
    const bool combined = mine && n > 0;
    if (combined) {
      take(gathered_, shape_.tp * n * g);
      new_node(4 * whole(b));
    }
    if (kept()) {
      if (mine && setup_.grad_sum == GradSum::tree) {
        push_leaf(stacks_[b][0], unit(shape_.rank), 4 * whole(b), combined);
      } else if (combined) {
        nodes(-4 * whole(b));
      }
      return;
    }
    std::int64_t leaving = 0;
    std::int64_t arriving = 0;
    for (int r = 0; r < shape_.ranks; ++r) {
      if (r == shape_.rank) continue;
      if (mine && split(b, r)) leaving += w * part(b, r);
      if (unit(r) >= 0) arriving += w * own(b);
    }
    take(out_, leaving);
    take(in_, arriving);
    if (own(b) > 0 && setup_.grad_sum == GradSum::tree) {
      for (int r = 0; r < shape_.ranks; ++r) {
        const int key = strided() ? 0 : (shape_.instance * shape_.ranks + r) / setup_.cp;
        if (unit(r) >= 0) push_leaf(stacks_[b][key], unit(r), 4 * own(b), false);
      }
    }
    if (combined) nodes(-4 * whole(b));
  }

  void push_leaf(Stack& stack, std::int64_t unit, std::int64_t size, bool own_memory) {
    const int c = push(stack, unit);
    if (c == 0 && !own_memory) new_node(size);
    if (c >= 1 && own_memory) ++spare_[size];
    for (int k = 1; k < c; ++k) ++spare_[size];
  }

  void finish() {
    for (const auto& [bytes, count] : spare_) nodes(-bytes * count);
    spare_.clear();
    for (std::size_t b = 0; b < stacks_.size(); ++b) {
      const bool binned = setup_.grad_sum == GradSum::binned;
      std::int64_t leaving = 0;
      std::int64_t arriving = 0;
      for (int r = 0; r < shape_.ranks && kept(); ++r) {
        if (r == shape_.rank) continue;
        if (binned) {
          if (left(shape_.rank) > 0) leaving += bins(part(b, r));
          if (left(r) > 0) arriving += bins(own(b));
        } else {
          if (left(shape_.rank) > 1 || split(b, r)) leaving += 4 * left(shape_.rank) * part(b, r);
          arriving += 4 * own(b) * left(r);
        }
      }
      take(out_, leaving);
      take(in_, arriving);
      if (!kept() && !binned && own(b) > 0) {
        std::int64_t entries = 0;
        for (const auto& [key, stack] : stacks_[b]) entries += static_cast<std::int64_t>(stack.size());
        nodes(-4 * own(b) * (entries - left_of_instance(shape_.instance)));
      }
      if (shape_.instances > 1 && own(b) > 0) {
        std::int64_t all = 0;
        for (int i = 0; i < shape_.instances; ++i)
          all += binned ? bins(own(b)) : 4 * own(b) * left_of_instance(i);
        take(gathered_, all);
      }
      if (binned) nodes(-bins(kept() ? whole(b) : own(b)));
      if (kept() && !binned && stacks_[b].contains(0)) {
        nodes(-4 * whole(b) * static_cast<std::int64_t>(stacks_[b][0].size()));
      }
      if (!kept() && !binned && own(b) > 0) nodes(-4 * own(b) * left_of_instance(shape_.instance));
    }
    for (std::size_t b = 0; b < stacks_.size() && setup_.stage == 0 && shape_.ranks > 1; ++b) {
      take(in_, 4 * split_parts(b));
    }
    free(out_);
    free(in_);
    free(gathered_);
  }

  std::int64_t split_parts(std::size_t b) const {
    std::int64_t numel = 0;
    for (int r = 0; r < shape_.ranks; ++r) numel += split(b, r) ? part(b, r) : 0;
    return numel;
  }

  void gather() {
    const std::int64_t p = num_bytes(setup_.param_dtype);
    std::int64_t wire = 0;
    if (setup_.stage == 1 || setup_.stage == 2) {
      for (std::size_t b = 0; b < map_.buckets().size(); ++b) take(wire, p * split_parts(b));
    }
    if (setup_.stage == 3 && shape_.ranks > 1) take(wire, p * persistent_elements());
    free(wire);
  }

  /// Of ranks with more than one stretch.
  std::int64_t persistent_elements() const {
    std::int64_t all = 0;
    for (int r = 0; r < shape_.ranks; ++r) {
      std::int64_t stretches = 0;
      std::int64_t elements = 0;
      std::int64_t next_local = -1;
      std::int64_t next_target = -1;
      for (const Piece& piece : layout_.pieces(map_.shard(r))) {
        std::int64_t target = 0;
        for (std::int64_t t = 0; t < piece.tensor; ++t) target += persistent(t);
        if (persistent(piece.tensor) == 0) continue;
        target += piece.tensor_begin;
        if (piece.local_begin != next_local || target != next_target) ++stretches;
        next_local = piece.local_begin + piece.numel;
        next_target = target + piece.numel;
        elements += piece.numel;
      }
      if (stretches > 1) all += elements;
    }
    return all;
  }
  std::int64_t persistent(std::int64_t tensor) const {
    const std::int64_t numel = layout_.tensors()[static_cast<std::size_t>(tensor)].numel;
    return numel <= setup_.persistent_numel ? numel : 0;
  }

  const Shape shape_;
  const OptimizerSetup& setup_ = shape_.setup;
  const ShardMap& map_;
  const FlatLayout& layout_;
  std::vector<std::map<int, Stack>> stacks_;
  std::map<std::int64_t, std::int64_t> spare_;  ///< buffers by size
  std::int64_t out_ = 0, in_ = 0, gathered_ = 0;
  MemoryUse use_;
};

}  // namespace zeroproof::tests
