#include "common/layout/traffic_model.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "common/layout/layered_walk.hpp"

namespace zeroproof {
namespace {

constexpr std::int64_t word_bytes = 8;  // all_reduce works on 64-bit words
constexpr std::int64_t digest_bytes = 16;
constexpr std::int64_t node_bytes = 4;  // inner nodes travel as fp32

std::int64_t bin_bytes(std::int64_t numel) { return 8 * numel + (numel + 3) / 4 * 4; }

/// One rank's collectives, phase by phase.
class TrafficWalk {
 public:
  explicit TrafficWalk(const StepShape& shape) : shape_(shape) {
    for (int rank = 0; rank < shape.world_size; ++rank) {
      const std::int64_t data_rank = std::int64_t{shape.instance} * shape.world_size + rank;
      const std::vector<std::int64_t> leaves = leaves_of(shape, data_rank);
      const auto count = static_cast<std::int64_t>(leaves.size());
      const std::int64_t nodes = stack_use(leaves).left;
      (rank == shape.rank ? my_leaves_ : other_leaves_) += count;
      (rank == shape.rank ? my_nodes_ : other_nodes_) += nodes;
      if (rank != shape.rank && nodes > 0) ++other_holders_;
    }
  }

  StepTraffic all() {
    prepare();
    if (shape_.layered() && shape_.stage == 3) gather_units();
    tp_parts();
    if (shape_.grad_sum != GradSum::native) shape_.keeps_leaves() ? send_nodes() : send_leaves();
    if (shape_.grad_sum != GradSum::native) instances();
    if (shape_.stage == 0) {
      for (const BucketShape& bucket : shape_.buckets) {
        add_gather(line(Phase::reduce, CommGroup::shards, Collective::all_gather, "sums"),
                   node_bytes * bucket.owned, node_bytes * bucket.owned_by_others());
      }
    }
    words(Phase::unscale, CommGroup::shards, 1, "found_inf");
    words(Phase::unscale, CommGroup::instances, 1, "found_inf");
    words(Phase::unscale, CommGroup::tp, 1, "found_inf");
    const std::int64_t norm_words = shape_.norm == NormForm::inf ? 1 : 23;
    if (shape_.stage != 0) words(Phase::norm, CommGroup::shards, norm_words, "norm");
    words(Phase::norm, CommGroup::tp, norm_words, "norm");
    gather_parameters();
    return std::move(traffic_);
  }

 private:
  std::int64_t ranks_of(CommGroup group) const {
    return group == CommGroup::shards      ? shape_.world_size
           : group == CommGroup::instances ? shape_.instances
                                           : shape_.tp_size;
  }

  /// The line of this purpose, made if it is not there; null for a group of one rank.
  TrafficLine* line(Phase phase, CommGroup group, Collective collective, std::string_view what) {
    if (ranks_of(group) == 1) return nullptr;
    for (TrafficLine& old : traffic_.lines) {
      if (old.phase == phase && old.group == group && old.collective == collective && old.what == what)
        return &old;
    }
    traffic_.lines.push_back({phase, group, collective, what, 0, 0, 0, 0});
    return &traffic_.lines.back();
  }

  /// A block of `mine` bytes to every other rank.
  void add_gather(TrafficLine* line, std::int64_t mine, std::int64_t others) {
    if (line == nullptr) return;
    const std::int64_t ranks = ranks_of(line->group) - 1;
    ++line->calls;
    line->messages += mine > 0 ? ranks : 0;
    line->sent_bytes += mine * ranks;
    line->received_bytes += others;
  }

  void words(Phase phase, CommGroup group, std::int64_t count, std::string_view what) {
    const std::int64_t bytes = word_bytes * count;
    add_gather(line(phase, group, Collective::all_reduce, what), bytes, bytes * (ranks_of(group) - 1));
  }

  /// A digest of the scalars, which every group passes on with those it has heard of; and what is summed or combined over
  /// micro-batches.
  void prepare() {
    std::int64_t known = digest_bytes;
    for (const CommGroup group : {CommGroup::tp, CommGroup::shards, CommGroup::instances}) {
      const std::int64_t others = known * (ranks_of(group) - 1);
      add_gather(line(Phase::prepare, group, Collective::all_gather, "scalars"), known, others);
      known += others;
      if (shape_.counts_tokens && group != CommGroup::tp) words(Phase::prepare, group, 1, "tokens");
      if (shape_.skips_missing) words(Phase::prepare, group, (shape_.num_tensors + 63) / 64, "missing");
    }
  }

  /// Stages 0 and 1: what is left on the stacks, once per step.
  void send_nodes() {
    TrafficLine* const sent = line(Phase::reduce, CommGroup::shards, Collective::all_to_all,
                                   shape_.grad_sum == GradSum::tree ? "nodes" : "bins");
    for (const BucketShape& bucket : shape_.buckets) {
      if (sent == nullptr) return;
      ++sent->calls;
      sent->messages += my_nodes_ > 0 ? bucket.other_owners() : 0;
      if (shape_.grad_sum == GradSum::tree) {
        sent->sent_bytes += node_bytes * my_nodes_ * bucket.owned_by_others();
        sent->received_bytes += node_bytes * other_nodes_ * bucket.owned;
      } else {
        sent->sent_bytes += my_nodes_ > 0 ? 8 * bucket.owned_by_others() + 4 * bucket.quads : 0;
        sent->received_bytes += other_holders_ * bin_bytes(bucket.owned);
      }
    }
  }

  /// Stages 2 and 3: every leaf by itself, in the leaf dtype unless parts of TP ranks were added to it.
  void send_leaves() {
    TrafficLine* const sent = line(Phase::reduce, CommGroup::shards, Collective::all_to_all, "leaves");
    for (const BucketShape& bucket : shape_.buckets) {
      if (sent == nullptr) return;
      const std::int64_t width = bucket.tp_replicated > 0 ? node_bytes : num_bytes(shape_.leaf_dtype);
      sent->calls += shape_.micro_steps();
      sent->messages += my_leaves_ * bucket.other_owners();
      sent->sent_bytes += width * my_leaves_ * bucket.owned_by_others();
      sent->received_bytes += width * other_leaves_ * bucket.owned;
    }
  }

  /// Parts that every TP rank has of the gradient of what TP does not cut.
  void tp_parts() {
    for (const BucketShape& bucket : shape_.buckets) {
      if (bucket.tp_replicated == 0) continue;
      const std::int64_t bytes = bucket.tp_replicated * num_bytes(shape_.leaf_dtype);
      for (std::int64_t leaf = 0; leaf < my_leaves_; ++leaf) {
        add_gather(line(Phase::reduce, CommGroup::tp, Collective::all_gather, "TP parts"), bytes,
                   bytes * (shape_.tp_size - 1));
      }
    }
  }

  /// Owners of the same elements tell each other what their instance has left.
  void instances() {
    if (shape_.instances == 1) return;
    std::vector<std::int64_t> left;
    for (int instance = 0; instance < shape_.instances; ++instance) left.push_back(instance_nodes(instance));
    const std::int64_t mine = left[static_cast<std::size_t>(shape_.instance)];
    std::int64_t others = -mine;
    for (const std::int64_t nodes : left) others += nodes;
    for (const BucketShape& bucket : shape_.buckets) {
      if (bucket.owned == 0) continue;
      TrafficLine* const told = line(Phase::reduce, CommGroup::instances, Collective::all_gather,
                                     shape_.grad_sum == GradSum::tree ? "nodes" : "bins");
      if (shape_.grad_sum == GradSum::tree) {
        add_gather(told, node_bytes * mine * bucket.owned, node_bytes * others * bucket.owned);
      } else {
        add_gather(told, bin_bytes(bucket.owned), (shape_.instances - 1) * bin_bytes(bucket.owned));
      }
    }
  }

  std::int64_t instance_nodes(int instance) const {
    std::vector<std::int64_t> all;
    for (int rank = 0; rank < shape_.world_size; ++rank) {
      const auto leaves = leaves_of(shape_, std::int64_t{instance} * shape_.world_size + rank);
      all.insert(all.end(), leaves.begin(), leaves.end());
    }
    std::sort(all.begin(), all.end());
    return stack_use(all).left;
  }

  /// Stage 3: units are made whole in every micro-step, also on ranks that have no micro-batch in it.
  void gather_units() {
    const auto nothing = [](std::int64_t) {};
    const LayeredEvents events{nothing, nothing,
                               [&](std::size_t unit) {
                                 const GatherShape& g = shape_.units[unit];
                                 const std::int64_t width = num_bytes(shape_.param_dtype);
                                 add_gather(
                                     line(Phase::reduce, CommGroup::shards, Collective::all_gather, "units"),
                                     width * g.owned, width * (g.all - g.owned));
                               },
                               [](std::size_t) {}};
    for (std::int64_t i = 0; i < shape_.micro_steps(); ++i) walk_micro_step(shape_, true, events);
  }

  void gather_parameters() {
    const std::int64_t width = num_bytes(shape_.param_dtype);
    if (shape_.stage == 3 && shape_.persistent.all > 0) {
      const GatherShape& g = shape_.persistent;
      add_gather(line(Phase::gather, CommGroup::shards, Collective::all_gather, "persistent"),
                 width * g.owned, width * (g.all - g.owned));
    }
    if (shape_.stage != 1 && shape_.stage != 2) return;
    for (const BucketShape& bucket : shape_.buckets) {
      add_gather(line(Phase::gather, CommGroup::shards, Collective::all_gather, "parameters"),
                 width * bucket.owned, width * bucket.owned_by_others());
    }
  }

  const StepShape& shape_;
  StepTraffic traffic_;
  std::int64_t my_leaves_ = 0, other_leaves_ = 0;  ///< of this instance
  std::int64_t my_nodes_ = 0, other_nodes_ = 0;    ///< left on the stacks
  std::int64_t other_holders_ = 0;                 ///< other ranks with a leaf
};

}  // namespace

std::string_view name(CommGroup group) {
  constexpr std::array<std::string_view, 3> names = {"shards", "instances", "tp"};
  return names[static_cast<std::size_t>(group)];
}

std::int64_t StepTraffic::messages() const {
  std::int64_t sum = 0;
  for (const TrafficLine& line : lines) sum += line.messages;
  return sum;
}

std::int64_t StepTraffic::sent_bytes() const {
  std::int64_t sum = 0;
  for (const TrafficLine& line : lines) sum += line.sent_bytes;
  return sum;
}

StepTraffic predict_traffic(const StepShape& shape) { return TrafficWalk(shape).all(); }

}  // namespace zeroproof
