#include "common/layout/memory_model.hpp"

#include <algorithm>

#include "common/layout/layered_walk.hpp"
#include "common/layout/step_shape.hpp"

namespace zeroproof {
namespace {

/// Bins of R11 for some elements: hi and lo, and top padded to a word for every four.
std::int64_t bin_bytes(std::int64_t numel) { return 8 * numel + (numel + 3) / 4 * 4; }

class Ledger {
 public:
  explicit Ledger(BytesByClass* at_peak) : at_peak_(at_peak) {}

  void add(MemoryClass kind, std::int64_t bytes) {
    const auto i = static_cast<std::size_t>(kind);
    use_.now[i] += bytes;
    use_.total_now += bytes;
    use_.peak[i] = std::max(use_.peak[i], use_.now[i]);
    if (use_.total_now <= use_.total_peak) return;
    use_.total_peak = use_.total_now;
    if (at_peak_ != nullptr) *at_peak_ = use_.now;
  }
  const MemoryUse& use() const { return use_; }

 private:
  MemoryUse use_;
  BytesByClass* at_peak_;
};

/// A message buffer: grows to the largest request and is freed at the end of a phase.
class Wire {
 public:
  explicit Wire(Ledger& ledger) : ledger_(ledger) {}
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;
  ~Wire() { ledger_.add(MemoryClass::wire, -size_); }

  void take(std::int64_t bytes) {
    if (size_ >= bytes) return;
    ledger_.add(MemoryClass::wire, -size_);
    ledger_.add(MemoryClass::wire, size_ = bytes);
  }

 private:
  Ledger& ledger_;
  std::int64_t size_ = 0;
};

/// What one micro-step does to the stacks of a bucket: the same for all buckets.
struct StackMove {
  bool here = false;         ///< this rank has a leaf
  std::int64_t senders = 0;  ///< other ranks that have one
  std::int64_t most = 0;     ///< nodes at most in between
  std::int64_t after = 0;    ///< nodes at the end
};

/// Phase reduce, bucket by bucket.
class ReduceWalk {
 public:
  ReduceWalk(const StepShape& shape, Ledger& ledger)
      : shape_(shape),
        ledger_(ledger),
        out_(ledger),
        in_(ledger),
        gathered_(ledger),
        nodes_(shape.buckets.size(), 0) {
    for (int rank = 0; rank < shape.world_size; ++rank) leaves_.push_back(leaves_of(shape, data_rank(rank)));
    make_moves();
    if (shape.grad_sum != GradSum::binned) return;
    for (const BucketShape& bucket : shape.buckets) {
      hold_nodes(bin_bytes(shape.keeps_leaves() ? bucket.range.numel() : bucket.owned));
    }
  }

  bool computes(std::int64_t micro_step) const { return moves_[static_cast<std::size_t>(micro_step)].here; }

  void one_leaf(std::size_t b, std::int64_t micro_step) {
    const BucketShape& bucket = shape_.buckets[b];
    const StackMove& move = moves_[static_cast<std::size_t>(micro_step)];
    std::int64_t combined = 0;  // bytes of the leaf with all TP parts in it
    if (move.here && bucket.tp_replicated > 0) {
      gathered_.take(shape_.tp_size * bucket.tp_replicated * num_bytes(shape_.leaf_dtype));
      hold_nodes(combined = 4 * bucket.range.numel());
    }
    if (shape_.keeps_leaves()) {
      if (move.here) keep(b, move, combined);
      return;
    }
    const std::int64_t width = bucket.tp_replicated > 0 ? 4 : num_bytes(shape_.leaf_dtype);
    out_.take(move.here ? width * (bucket.split - bucket.split_here) : 0);
    in_.take(width * bucket.owned * move.senders);
    if (shape_.grad_sum == GradSum::tree) {
      const std::int64_t node = 4 * bucket.owned;
      hold_nodes((move.most - nodes_[b]) * node);
      hold_nodes((move.after - move.most) * node);
      nodes_[b] = move.after;
    }
    hold_nodes(-combined);
  }

  void finish() {
    const std::vector<std::int64_t> own = left_on_stacks();
    const std::int64_t mine = own[static_cast<std::size_t>(shape_.rank)];
    std::int64_t others = -mine;
    std::int64_t senders = mine > 0 ? -1 : 0;
    for (const std::int64_t left : own) {
      others += left;
      senders += left > 0 ? 1 : 0;
    }
    joined_ = nodes_of_instance(shape_.instance);
    std::int64_t instance_nodes = 0;
    for (int i = 0; i < shape_.instances; ++i) instance_nodes += nodes_of_instance(i);
    for (std::size_t b = 0; b < shape_.buckets.size(); ++b)
      finish_bucket(b, mine, others, senders, instance_nodes);
    if (shape_.stage != 0 || shape_.world_size == 1) return;
    for (const BucketShape& bucket : shape_.buckets) in_.take(4 * bucket.split);
  }

 private:
  std::int64_t data_rank(int rank) const { return std::int64_t{shape_.instance} * shape_.world_size + rank; }
  void hold_nodes(std::int64_t bytes) { ledger_.add(MemoryClass::grad_nodes, bytes); }

  /// The stacks after every micro-step, from R11 alone.
  void make_moves() {
    const bool kept = shape_.keeps_leaves();
    const bool one_stack = kept || shape_.strided();
    const std::int64_t first_holder = data_rank(0) / shape_.cp;
    std::vector<NodeCount> stacks(one_stack ? 1 : leaves_.size());
    std::int64_t nodes = 0;
    for (std::int64_t i = 0; i < shape_.micro_steps(); ++i) {
      StackMove move;
      move.most = nodes;
      for (int rank = 0; rank < shape_.world_size; ++rank) {
        const std::vector<std::int64_t>& leaves = leaves_[static_cast<std::size_t>(rank)];
        if (i >= static_cast<std::int64_t>(leaves.size())) continue;
        if (rank == shape_.rank) move.here = true;
        move.senders += rank == shape_.rank ? 0 : 1;
        if (kept && rank != shape_.rank) continue;
        const auto stack =
            static_cast<std::size_t>(one_stack ? 0 : data_rank(rank) / shape_.cp - first_holder);
        nodes += 1 - stacks[stack].push(leaves[static_cast<std::size_t>(i)]);
        move.most = std::max(move.most, nodes);
      }
      move.after = nodes;
      moves_.push_back(move);
    }
  }

  /// Leaves stay here. `combined` is the leaf's own memory, 0 if it is somebody else's.
  void keep(std::size_t b, const StackMove& move, std::int64_t combined) {
    const std::int64_t node = 4 * shape_.buckets[b].range.numel();
    std::int64_t held = 0;
    if (shape_.grad_sum == GradSum::tree) held = (move.after - nodes_[b]) * node;
    if (shape_.grad_sum == GradSum::native && nodes_[b] == 0) held = node;
    nodes_[b] = shape_.grad_sum == GradSum::native ? 1 : move.after;
    if (shape_.grad_sum == GradSum::binned) nodes_[b] = 0;
    if (held > 0 && combined > 0) {  // it becomes the node
      combined -= node;
      held -= node;
    }
    hold_nodes(held);
    hold_nodes(-combined);
  }

  std::vector<std::int64_t> left_on_stacks() const {
    std::vector<std::int64_t> left;
    for (const std::vector<std::int64_t>& leaves : leaves_) left.push_back(stack_use(leaves).left);
    return left;
  }

  /// Left when an instance has pushed all its leaves.
  std::int64_t nodes_of_instance(int instance) const {
    std::vector<std::int64_t> all;
    for (int rank = 0; rank < shape_.world_size; ++rank) {
      const auto leaves = leaves_of(shape_, std::int64_t{instance} * shape_.world_size + rank);
      all.insert(all.end(), leaves.begin(), leaves.end());
    }
    std::sort(all.begin(), all.end());
    return stack_use(all).left;
  }

  void finish_bucket(std::size_t b, std::int64_t mine, std::int64_t others, std::int64_t senders,
                     std::int64_t instance_nodes) {
    const BucketShape& bucket = shape_.buckets[b];
    const std::int64_t split_others = bucket.split - bucket.split_here;
    std::int64_t held = 0;
    std::int64_t told = 0;  // by all instances
    switch (shape_.grad_sum) {
      case GradSum::tree:
        held = nodes_[b] * 4 * (shape_.keeps_leaves() ? bucket.range.numel() : bucket.owned);
        told = 4 * bucket.owned * instance_nodes;
        if (!shape_.keeps_leaves()) {  // stacks of several holders are joined, which frees what is combined
          hold_nodes((joined_ - nodes_[b]) * 4 * bucket.owned);
          held = joined_ * 4 * bucket.owned;
          break;
        }
        out_.take(4 * mine * (mine == 1 ? split_others : bucket.owned_by_others()));
        in_.take(4 * bucket.owned * others);
        break;
      case GradSum::binned:
        held = bin_bytes(shape_.keeps_leaves() ? bucket.range.numel() : bucket.owned);
        told = shape_.instances * bin_bytes(bucket.owned);
        if (!shape_.keeps_leaves()) break;
        out_.take(mine == 0 ? 0 : 8 * bucket.owned_by_others() + 4 * bucket.quads);
        in_.take(bin_bytes(bucket.owned) * senders);
        break;
      case GradSum::native:
        held = 4 * bucket.range.numel();
        told = 8 * bucket.owned;
        if (nodes_[b] == 0) hold_nodes(held);  // zeros, for a library that waits for every rank
        if (shape_.world_size == 1) break;
        out_.take(bucket.in_order ? 0 : 4 * bucket.owned_by_all);
        in_.take(4 * bucket.owned);
        break;
    }
    if (shape_.instances > 1 && bucket.owned > 0) gathered_.take(told);
    hold_nodes(-held);
  }

  const StepShape& shape_;
  Ledger& ledger_;
  Wire out_, in_, gathered_;
  std::vector<std::vector<std::int64_t>> leaves_;  // [world_size] of this instance
  std::vector<StackMove> moves_;                   // [micro_steps]
  std::vector<std::int64_t> nodes_;                // [buckets] on all stacks
  std::int64_t joined_ = 0;                        // nodes of this instance, on one stack
};

/// A message buffer that lives while one thing is gathered.
void gather_once(const StepShape& shape, Ledger& ledger, const GatherShape& gathered) {
  if (shape.world_size > 1) Wire(ledger).take(num_bytes(shape.param_dtype) * gathered.split);
}

void walk_reduce(const StepShape& shape, Ledger& ledger) {
  for (std::size_t u = 0; u < shape.units.size(); ++u) {  // from the first step to the end
    const std::int64_t numel = u < shape.stays.size() && shape.stays[u] ? shape.units[u].range.numel() : 0;
    ledger.add(MemoryClass::param_full, num_bytes(shape.param_dtype) * numel);
  }
  ReduceWalk reduce(shape, ledger);
  if (!shape.layered() || shape.stage <= 1) {
    const bool leaf = shape.layered() && reduce.computes(0);
    const std::int64_t leaf_bytes = leaf ? num_bytes(shape.leaf_dtype) * shape.padded_numel : 0;
    ledger.add(MemoryClass::grad, leaf_bytes);
    for (std::int64_t i = 0; i < shape.micro_steps(); ++i) {
      for (std::size_t b = 0; b < shape.buckets.size(); ++b) reduce.one_leaf(b, i);
    }
    reduce.finish();
    ledger.add(MemoryClass::grad, -leaf_bytes);
    return;
  }
  for (std::int64_t i = 0; i < shape.micro_steps(); ++i) {
    const LayeredEvents events{[&](std::int64_t bytes) { ledger.add(MemoryClass::param_full, bytes); },
                               [&](std::int64_t bytes) { ledger.add(MemoryClass::grad, bytes); },
                               [&](std::size_t unit) { gather_once(shape, ledger, shape.units[unit]); },
                               [&](std::size_t bucket) { reduce.one_leaf(bucket, i); }};
    walk_micro_step(shape, reduce.computes(i), events);
  }
  reduce.finish();
}

}  // namespace

std::string_view name(MemoryClass kind) {
  constexpr std::array<std::string_view, num_memory_classes> names = {
      "master", "state", "param_shard", "param_full", "grad", "grad_nodes", "grad_sum", "wire"};
  return names[static_cast<std::size_t>(kind)];
}

MemoryUse predict_memory(const StepShape& shape, BytesByClass* at_peak) {
  Ledger ledger(at_peak);
  const std::int64_t param = num_bytes(shape.param_dtype);
  const std::int64_t whole = shape.stage == 3 ? shape.persistent.all : shape.padded_numel;
  ledger.add(MemoryClass::grad_sum, 4 * shape.kept_numel());
  ledger.add(MemoryClass::master, 4 * shape.kept_numel());
  ledger.add(MemoryClass::state, 4 * shape.state_buffers * shape.kept_numel());
  ledger.add(MemoryClass::param_shard, param * shape.kept_numel());
  ledger.add(MemoryClass::param_full, param * whole);
  walk_reduce(shape, ledger);
  if (shape.stage == 3) gather_once(shape, ledger, shape.persistent);
  if (shape.stage == 1 || shape.stage == 2) {
    Wire wire(ledger);
    for (const BucketShape& bucket : shape.buckets) wire.take(param * bucket.split);
  }
  return ledger.use();
}

}  // namespace zeroproof
