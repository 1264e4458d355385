#pragma once
// A plan without formulas: every rank, every bucket and every leaf one by one, to compare zeroproof
// plan with.

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/layout/shard_map.hpp"
#include "tests/verification/tools/plan/listed_stack.hpp"
#include "verification/tools/plan/model.hpp"
#include "verification/tools/plan/plan.hpp"
#include "verification/tools/plan/predict/memory_tally.hpp"

namespace zeroproof::tests {

/// Every rank of a planned run, with a shape that lists every bucket.
class PlanListing {
 public:
  PlanListing(const verification::PlanSettings& settings, const verification::PlannedModel& model,
              int stage)
      : layout_(verification::tp_shapes(model, settings.grid.tp)),
        shards_(layout_.padded_numel(), settings.grid.data_ranks() / settings.instances,
                settings.bucket_numel) {
    shape_.stage = stage;
    shape_.instances = settings.instances;
    shape_.world_size = shards_.world_size();
    shape_.tp_size = settings.grid.tp;
    shape_.cp = settings.grid.cp;
    shape_.order = settings.order;
    shape_.windows = settings.windows;
    shape_.param_dtype = settings.param_dtype;
    shape_.grad_dtype = settings.grad_dtype;
    shape_.micro_batches = settings.micro_batches;
    shape_.state_buffers = state_buffer_count(settings.hyper);
    shape_.norm = settings.hyper.norm;
    shape_.numel = layout_.numel();
    shape_.num_tensors = static_cast<std::int64_t>(layout_.tensors().size());
    for (std::size_t t = 0; settings.grid.tp > 1 && t < model.tensors.size(); ++t) {
      const TensorSlot& slot = layout_.tensors()[t];
      if (model.tensors[t].tp_cut < 0) replicated_.push_back({slot.begin, slot.begin + slot.numel});
    }
    for (std::int64_t rank = 0; rank < shape_.data_ranks(); ++rank)
      leaves_.push_back(leaves_of(rank));
  }

  /// A rank's shape: every bucket an entry, from the shard map.
  const PredictedStep& of_rank(std::int64_t data_rank) {
    shape_.instance = static_cast<int>(data_rank / shape_.world_size);
    shape_.rank = static_cast<int>(data_rank % shape_.world_size);
    set_buckets(shape_, shards_);
    for (const FlatRange& elements : replicated_) add_tp_replicated(shape_, elements);
    const std::vector<FlatRange> units = verification::named_units(layout_);
    std::vector<int> visits;
    for (std::size_t u = 0; u < units.size(); ++u) visits.push_back(static_cast<int>(u));
    set_units({&shape_}, layout_, MapOwnership(shards_), units, visits, 0);
    return shape_;
  }

  /// Bytes of the rank that of_rank() was last called for.
  MemoryUse memory(BytesByClass& at_peak) {
    MemoryTally tally(&at_peak);
    const std::int64_t param = num_bytes(shape_.param_dtype);
    for (const MemoryClass kind : {MemoryClass::grad_sum, MemoryClass::master})
      tally.add(kind, 4 * shape_.kept_numel());
    tally.add(MemoryClass::state, 4 * shape_.state_buffers * shape_.kept_numel());
    const bool gathers = (shape_.stage == 1 || shape_.stage == 2) && shape_.world_size > 1;
    const bool one_copy = gathers && shape_.windows == Windows::params;
    if (!one_copy) tally.add(MemoryClass::param_shard, param * shape_.kept_numel());
    if (gathers && (!one_copy || shape_.rank == 0))
      tally.add(MemoryClass::param_full, param * shape_.padded_numel);
    out_ = in_ = gathered_ = combined_ = shared_ = 0;
    places_.assign(shape_.buckets.size(), std::vector<Places>(shape_.world_size));
    MemoryTally unseen(nullptr);
    reduce(unseen);  // once for the memory of the first step
    for (std::size_t b = 0; b < places_.size(); ++b) {
      const BucketShape& bucket = shape_.buckets[b];
      const std::int64_t numel = shape_.keeps_leaves() ? bucket.range.numel() : bucket.owned;
      for (const Places& stack : places_[b])
        tally.add(MemoryClass::grad_nodes, 4 * numel * stack.most);
    }
    tally.add(MemoryClass::grad_nodes, combined_ + shared_);
    tally.add(MemoryClass::comm_buffer, out_ + in_ + gathered_);
    reduce(tally);
    return tally.use();
  }

  /// Kinds of ranks: equal slices of the buckets, and leaves that combine in the same way, here and
  /// in the instance.
  std::int64_t kinds() {
    std::set<std::vector<std::vector<std::int64_t>>> kinds;
    for (std::int64_t rank = 0; rank < shape_.data_ranks(); ++rank) {
      of_rank(rank);
      std::vector<std::int64_t> owned, own;
      for (const BucketShape& bucket : shape_.buckets) owned.push_back(bucket.owned);
      ListedStack stack;
      for (const std::int64_t leaf : leaves(shape_.rank)) own.push_back(stack.push(leaf));
      if (!shape_.keeps_leaves()) own = {static_cast<std::int64_t>(own.size())};
      const bool holds_copy = shape_.windows == Windows::params && shape_.world_size > 1 &&
                              shape_.stage % 3 != 0 && shape_.rank == 0;
      own.push_back(holds_copy ? 1 : 0);
      kinds.insert(
          {owned, own, shape_.instances == 1 ? std::vector<std::int64_t>{} : instance_moves()});
    }
    return static_cast<std::int64_t>(kinds.size());
  }

  const FlatLayout& layout() const { return layout_; }

 private:
  std::vector<std::int64_t> leaves_of(std::int64_t data_rank) const {
    std::vector<std::int64_t> leaves;
    const std::int64_t groups = shape_.data_ranks() / shape_.cp;
    const std::int64_t group = data_rank / shape_.cp;
    for (std::int64_t j = 0; j < shape_.micro_batches; ++j) {
      const bool mine = shape_.strided() ? j % groups == group
                                         : j >= shape_.micro_batches * group / groups &&
                                               j < shape_.micro_batches * (group + 1) / groups;
      if (mine) leaves.push_back(j * shape_.cp + data_rank % shape_.cp);
    }
    return leaves;
  }
  const std::vector<std::int64_t>& leaves(int rank) const {
    return leaves_[std::int64_t{shape_.instance} * shape_.world_size + rank];
  }
  ListedStack joined(int instance) const {
    std::vector<std::int64_t> all;
    for (int rank = 0; rank < shape_.world_size; ++rank) {
      const auto& own = leaves_[instance * shape_.world_size + rank];
      all.insert(all.end(), own.begin(), own.end());
    }
    std::sort(all.begin(), all.end());
    return tests::stack_of(all);
  }
  std::size_t stack_of(int rank) const {
    if (!shape_.keeps_leaves() && shape_.strided()) return 0;
    return static_cast<std::size_t>(shape_.keeps_leaves() ? rank : rank / shape_.cp);
  }
  std::vector<std::int64_t> instance_moves() const {
    std::vector<std::int64_t> moves = {joined(shape_.instance).size(),
                                       joined(shape_.instance).bytes(2)};
    std::vector<ListedStack> stacks(shape_.world_size);
    for (std::size_t i = 0; i < static_cast<std::size_t>(shape_.micro_steps()); ++i) {
      for (int rank = 0; rank < shape_.world_size; ++rank) {
        if (i >= leaves(rank).size()) continue;
        moves.push_back(static_cast<std::int64_t>(i));
        moves.push_back(stacks[stack_of(rank)].push(leaves(rank)[i]));
      }
    }
    return moves;
  }

  static void grow(std::int64_t& buffer, std::int64_t bytes) { buffer = std::max(buffer, bytes); }

  bool windows() const { return shape_.windows != Windows::off && shape_.world_size > 1; }

  /// One rank with all leaves adds the last one in place, and so do ranks that read each other's.
  bool is_last(std::size_t i) const {
    if (windows() && shape_.stage < 2) return i + 1 == leaves(shape_.rank).size();
    return shape_.data_ranks() == 1 && shape_.tp_size == 1 && shape_.stage < 2 &&
           static_cast<std::int64_t>(i) + 1 == shape_.micro_steps();
  }

  /// One leaf of one bucket, from every rank with a leaf in this micro-step; or of this rank alone,
  /// if leaves are kept.
  void leaf(std::size_t b, std::size_t i) {
    const BucketShape& bucket = shape_.buckets[b];
    const bool here = i < leaves(shape_.rank).size();
    const bool kept = shape_.keeps_leaves();
    if (here && bucket.tp_replicated > 0) {
      const std::int64_t part = bucket.tp_replicated * num_bytes(shape_.grad_dtype);
      grow(gathered_, shape_.tp_size * ((part + 15) / 16 * 16));
      grow(combined_, 4 * bucket.range.numel());
    }
    if (here && windows()) {
      const std::int64_t numel = kept ? shape_.padded_numel : bucket.range.numel();
      grow(shared_, numel * (shape_.tp_size > 1 ? 4 : num_bytes(shape_.grad_dtype)));
    }
    const std::int64_t width = bucket.tp_replicated > 0 ? 4 : num_bytes(shape_.grad_dtype);
    std::int64_t arriving = 0;
    for (int rank = 0; rank < shape_.world_size; ++rank) {
      if (i >= leaves(rank).size() || (kept && rank != shape_.rank) || is_last(i)) continue;
      places_[b][stack_of(rank)].stack.push(leaves(rank)[i]);
      if (!kept && rank != shape_.rank) arriving += width * bucket.owned;
    }
    if (!windows()) grow(in_, arriving);
    for (Places& one : places_[b]) grow(one.most, one.stack.size());
  }

  void reduce(MemoryTally& tally) {
    for (std::vector<Places>& bucket : places_) {
      for (Places& one : bucket) one.stack = {};
    }
    const auto steps = static_cast<std::size_t>(shape_.micro_steps());
    const bool whole = shape_.stage < 2;
    const std::int64_t leaf_bytes = whole && !shape_.units.empty() && !leaves(shape_.rank).empty()
                                        ? num_bytes(shape_.grad_dtype) * shape_.padded_numel
                                        : 0;
    tally.add(MemoryClass::grad, leaf_bytes);
    for (std::size_t i = 0; i < steps; ++i) {
      for (std::size_t b = 0; whole && b < shape_.buckets.size(); ++b) leaf(b, i);
      if (!whole) by_unit(tally, i);
    }
    if (windows() || !is_last(steps - 1)) finish();
    tally.add(MemoryClass::grad, -leaf_bytes);
  }

  void finish() {
    const std::int64_t leaf_bytes = shape_.tp_size > 1 ? 4 : num_bytes(shape_.grad_dtype);
    const ListedStack mine = tests::stack_of(leaves(shape_.rank));
    std::int64_t others = 0, joined_bytes = 0;  // bytes of an element
    for (int rank = 0; rank < shape_.world_size; ++rank)
      others += rank == shape_.rank ? 0 : tests::stack_of(leaves(rank)).bytes(leaf_bytes);
    for (int instance = 0; instance < shape_.instances; ++instance)
      joined_bytes += joined(instance).bytes(leaf_bytes);
    for (const BucketShape& bucket : shape_.buckets) {
      if (shape_.keeps_leaves() && !windows()) {
        grow(out_, mine.size() > 1 ? mine.bytes(leaf_bytes) * bucket.owned_by_others() : 0);
        grow(in_, bucket.owned * others);
      }
      if (shape_.instances > 1 && bucket.owned > 0) grow(gathered_, bucket.owned * joined_bytes);
    }
  }

  bool touches(std::size_t b, const GatherShape& unit) const {
    const FlatRange& bucket = shape_.buckets[b].range;
    return bucket.begin < unit.range.end && bucket.end > unit.range.begin;
  }
  void gather(MemoryTally& tally, const GatherShape& unit, std::int64_t param) {
    tally.add(MemoryClass::param_full, param * unit.range.numel());
    if (shape_.world_size > 1 && !windows()) grow(in_, unit.split.packed_bytes(param));
  }

  /// Forward through the units, and back: a unit's gradient is allocated, complete buckets are
  /// reduced.
  void by_unit(MemoryTally& tally, std::size_t i) {
    const std::int64_t param = shape_.stage == 3 ? num_bytes(shape_.param_dtype) : 0;
    const std::int64_t width = i < leaves(shape_.rank).size() ? num_bytes(shape_.grad_dtype) : 0;
    const std::size_t units = shape_.units.size();
    for (std::size_t u = 0; u < units; ++u) {
      gather(tally, shape_.units[u], param);
      if (u + 1 < units) tally.add(MemoryClass::param_full, -param * shape_.units[u].range.numel());
    }
    std::vector<std::int64_t> missing(shape_.buckets.size(), 0), touched(missing);
    for (std::size_t b = 0; b < missing.size(); ++b) {
      for (const GatherShape& unit : shape_.units) touched[b] += touches(b, unit) ? 1 : 0;
    }
    missing = touched;
    for (std::size_t u = units; u-- > 0;) {
      const GatherShape& unit = shape_.units[u];
      if (u + 1 < units) gather(tally, unit, param);
      tally.add(MemoryClass::grad, width * unit.range.numel());
      const auto numel = [&](std::size_t b) { return shape_.buckets[b].range.numel(); };
      for (std::size_t b = 0; b < missing.size(); ++b) {
        if (!touches(b, unit)) continue;
        if (touched[b] > 1 && missing[b] == touched[b])
          tally.add(MemoryClass::grad, width * numel(b));
        --missing[b];
      }
      for (std::size_t b = missing.size(); b-- > 0;) {
        if (touches(b, unit) && missing[b] == 0) leaf(b, i);
      }
      for (std::size_t b = 0; b < missing.size(); ++b) {
        if (touches(b, unit) && missing[b] == 0 && touched[b] > 1)
          tally.add(MemoryClass::grad, -width * numel(b));
      }
      tally.add(MemoryClass::grad, -width * unit.range.numel());
      tally.add(MemoryClass::param_full, -param * unit.range.numel());
    }
  }

  FlatLayout layout_;
  ShardMap shards_;
  PredictedStep shape_;
  std::vector<FlatRange> replicated_;
  std::vector<std::vector<std::int64_t>> leaves_;  // [data ranks]
  /// A stack of nodes, and its maximum size between two micro-steps.
  struct Places {
    ListedStack stack;
    std::int64_t most = 0;
  };
  std::vector<std::vector<Places>> places_;  // [buckets][holders]
  std::int64_t out_ = 0, in_ = 0, gathered_ = 0;
  std::int64_t shared_ = 0;    ///< a leaf that other ranks read
  std::int64_t combined_ = 0;  ///< a leaf with all TP parts in it
};

}  // namespace zeroproof::tests
