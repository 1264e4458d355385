#include "verification/tools/plan/predict/traffic_model.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <utility>

#include "verification/tools/plan/predict/layered_walk.hpp"
#include "verification/tools/plan/predict/leaf_stacks.hpp"

namespace zeroproof {
namespace {

constexpr std::int64_t word_bytes = 8;  // all_reduce works on 64-bit words
constexpr std::int64_t digest_bytes = 16;
constexpr std::int64_t fp32_bytes = 4;  // inner nodes travel as fp32

/// One rank's collectives, phase by phase.
class TrafficWalk {
 public:
  TrafficWalk(const PredictedStep& shape, LeafStacks& stacks) : shape_(shape), stacks_(stacks) {
    const MicroBatchIndex mine =
        micro_batch_index(shape, std::int64_t{shape.instance} * shape.world_size + shape.rank);
    const InstanceStacks& all = stacks.of(shape.instance);
    my_leaves_ = mine.count;
    other_leaves_ = all.leaves - my_leaves_;
    my_nodes_ = nodes_left(mine);
    my_node_bytes_ = shape.node_bytes(my_nodes_, leaves_left(mine));
    other_node_bytes_ = shape.node_bytes(all.left, all.left_leaves) - my_node_bytes_;
    other_holders_ = all.holders - (my_nodes_ > 0 ? 1 : 0);
  }

  StepTraffic all(bool skipped) {
    prepare();
    if (shape_.layered() && shape_.stage == 3) gather_units();
    tp_parts();
    if (shape_.grad_sum == GradSum::native) {
      add_natively();
    } else {
      const bool in_place = shape_.grad_sum == GradSum::tree && shape_.reads_in_place();
      if (!in_place) shape_.keeps_leaves() ? send_nodes() : send_leaves();
      instances();
    }
    if (shape_.stage == 0) gather_buckets(Phase::reduce, "sums", fp32_bytes);
    for (const CommGroup group : {CommGroup::shards, CommGroup::instances, CommGroup::tp}) {
      if (shape_.enqueued) words(Phase::unscale, group, 3, "found_inf, digests");
      if (!shape_.enqueued) words(Phase::unscale, group, 1, "found_inf");
    }
    if (skipped && !shape_.enqueued) return std::move(traffic_);
    const std::int64_t norm_words = shape_.clip_groups * (shape_.norm == NormForm::inf ? 1 : 23);
    if (shape_.stage != 0) words(Phase::norm, CommGroup::shards, norm_words, "norm");
    words(Phase::norm, CommGroup::tp, norm_words, "norm");
    if (shape_.trust_ratio) {
      const std::int64_t ratio_words = shape_.num_tensors * 2 * 23;
      if (shape_.stage != 0) words(Phase::update, CommGroup::shards, ratio_words, "trust norms");
      words(Phase::update, CommGroup::tp, ratio_words, "trust norms");
    }
    if (shape_.has_matrices) exchange_matrices();
    join_amax(Phase::update, {shape_.cut_blocks * shape_.scaled_buffers()}, "state amax");
    join_amax(Phase::cast, {shape_.scale_blocks, shape_.column_blocks}, "amax");
    gather_parameters();
    return std::move(traffic_);
  }

 private:
  std::int64_t ranks_of(CommGroup group) const {
    return group == CommGroup::shards      ? shape_.world_size
           : group == CommGroup::instances ? shape_.instances
                                           : shape_.tp_size;
  }

  /// The line of this purpose, added if it does not exist; null for a group of one rank.
  TrafficLine* line(Phase phase, CommGroup group, Collective collective, std::string_view what) {
    if (ranks_of(group) == 1) return nullptr;
    for (TrafficLine& old : traffic_.lines) {
      if (old.phase == phase && old.group == group && old.collective == collective &&
          old.what == what)
        return &old;
    }
    traffic_.lines.push_back({phase, group, collective, what, 0, 0, 0, 0, 0});
    return &traffic_.lines.back();
  }

  /// `times` times a block of `mine` bytes to every other rank, and together `others` bytes from
  /// `senders` of them.
  void add_gather(TrafficLine* line, std::int64_t mine, std::int64_t others, std::int64_t senders,
                  std::int64_t times = 1) {
    if (line == nullptr) return;
    const std::int64_t ranks = times * (ranks_of(line->group) - 1);
    line->calls += times;
    line->messages += mine > 0 ? ranks : 0;
    line->messages_received += others > 0 ? times * senders : 0;
    line->sent_bytes += mine * ranks;
    line->received_bytes += times * others;
  }

  void words(Phase phase, CommGroup group, std::int64_t count, std::string_view what) {
    const std::int64_t bytes = word_bytes * count;
    const std::int64_t others = ranks_of(group) - 1;
    add_gather(line(phase, group, Collective::all_reduce, what), bytes, bytes * others, others);
  }

  /// A digest of the scalars, which every group passes on with those it has received; and the
  /// values that are summed or combined over micro-batches.
  void prepare() {
    std::int64_t known = digest_bytes;
    for (const CommGroup group : {CommGroup::tp, CommGroup::shards, CommGroup::instances}) {
      const std::int64_t others = known * (ranks_of(group) - 1);
      if (!shape_.enqueued) {  // otherwise the digests are sent with found_inf
        add_gather(line(Phase::prepare, group, Collective::all_gather, "scalars"), known, others,
                   ranks_of(group) - 1);
      }
      known += others;
      if (shape_.counts_tokens && group != CommGroup::tp) words(Phase::prepare, group, 1, "tokens");
      if (shape_.skips_missing)
        words(Phase::prepare, group, (shape_.num_tensors + 63) / 64, "missing");
    }
  }

  /// Stages 0 and 1: the nodes left on the stacks, once per step.
  void send_nodes() {
    TrafficLine* const sent = line(Phase::reduce, CommGroup::shards, Collective::all_to_all,
                                   shape_.grad_sum == GradSum::tree ? "nodes" : "bins");
    for (const BucketShape& bucket : shape_.buckets) {
      if (sent == nullptr) return;
      const std::int64_t count = bucket.count;
      sent->calls += count;
      sent->messages += my_nodes_ > 0 ? count * bucket.other_owners() : 0;
      sent->messages_received += bucket.owned > 0 ? count * other_holders_ : 0;
      if (shape_.grad_sum == GradSum::tree) {
        sent->sent_bytes += count * my_node_bytes_ * bucket.owned_by_others();
        sent->received_bytes += count * other_node_bytes_ * bucket.owned;
      } else {
        sent->sent_bytes += my_nodes_ > 0 ? count * bucket.others.sum(bin_bytes) : 0;
        sent->received_bytes += count * other_holders_ * bin_bytes(bucket.owned);
      }
    }
  }

  /// Stages 2 and 3: every leaf by itself, in the gradient dtype unless parts of TP ranks were
  /// added to it.
  void send_leaves() {
    TrafficLine* const sent =
        line(Phase::reduce, CommGroup::shards, Collective::all_to_all, "leaves");
    for (const BucketShape& bucket : shape_.buckets) {
      if (sent == nullptr) return;
      const std::int64_t width =
          bucket.tp_replicated > 0 ? fp32_bytes : num_bytes(shape_.grad_dtype);
      const std::int64_t mine = bucket.count * my_leaves_, others = bucket.count * other_leaves_;
      sent->calls += bucket.count * shape_.micro_steps();
      sent->messages += mine * bucket.other_owners();
      sent->messages_received += bucket.owned > 0 ? others : 0;
      sent->sent_bytes += width * mine * bucket.owned_by_others();
      sent->received_bytes += width * others * bucket.owned;
    }
  }

  /// Parts on every TP rank of the gradients of tensors that TP does not split.
  void tp_parts() {
    for (const BucketShape& bucket : shape_.buckets) {
      if (bucket.tp_replicated == 0 || my_leaves_ == 0) continue;
      TrafficLine* const sent =
          line(Phase::reduce, CommGroup::tp, Collective::all_gather, "TP parts");
      if (sent == nullptr) return;
      const std::int64_t calls = bucket.count * my_leaves_, ranks = shape_.tp_size - 1;
      const std::int64_t bytes =
          bucket.tp_replicated_sum * num_bytes(shape_.grad_dtype) * my_leaves_ * ranks;
      sent->calls += calls;
      sent->messages += calls * ranks;
      sent->messages_received += calls * ranks;
      sent->sent_bytes += bytes;
      sent->received_bytes += bytes;
    }
  }

  /// Native sums: the library adds over the shards, then every instance adds a share of its rank's
  /// elements and sends it to the others.
  void add_natively() {
    for (const BucketShape& bucket : shape_.buckets) {
      add_scatter(line(Phase::reduce, CommGroup::shards, Collective::reduce_scatter, "leaf sums"),
                  bucket.other_owners(), bucket.owned_by_others(), bucket.owned, bucket.count);
      if (shape_.instances == 1 || bucket.owned == 0) continue;
      const auto end_of = [&](std::int64_t i) { return bucket.owned * i / shape_.instances; };
      const std::int64_t mine = end_of(shape_.instance + 1) - end_of(shape_.instance);
      std::int64_t sharers = 0;  // other instances whose share is not empty
      for (int i = 0; i < shape_.instances; ++i)
        sharers += i != shape_.instance && end_of(i + 1) > end_of(i) ? 1 : 0;
      add_scatter(
          line(Phase::reduce, CommGroup::instances, Collective::reduce_scatter, "instance sums"),
          sharers, bucket.owned - mine, mine, bucket.count);
      add_gather(line(Phase::reduce, CommGroup::instances, Collective::all_gather, "instance sums"),
                 fp32_bytes * mine, fp32_bytes * (bucket.owned - mine), sharers, bucket.count);
    }
  }

  /// `times` times `owners` other ranks receive `others` elements together; every rank sends `mine`
  /// to this one.
  void add_scatter(TrafficLine* line, std::int64_t owners, std::int64_t others, std::int64_t mine,
                   std::int64_t times) {
    if (line == nullptr) return;
    const std::int64_t ranks = times * (ranks_of(line->group) - 1);
    line->calls += times;
    line->messages += times * owners;
    line->messages_received += mine > 0 ? ranks : 0;
    line->sent_bytes += times * fp32_bytes * others;
    line->received_bytes += fp32_bytes * mine * ranks;
  }

  /// Owners of the same elements exchange the nodes left by their instances.
  void instances() {
    if (shape_.instances == 1) return;
    std::int64_t mine = 0, others = 0, senders = 0;  // bytes of an element
    for (int instance = 0; instance < shape_.instances; ++instance) {
      const std::int64_t bytes =
          shape_.node_bytes(stacks_.joined(instance).nodes, stacks_.joined(instance).leaves);
      (instance == shape_.instance ? mine : others) += bytes;
      senders += instance != shape_.instance && bytes > 0 ? 1 : 0;
    }
    for (const BucketShape& bucket : shape_.buckets) {
      if (bucket.owned == 0) continue;
      if (shape_.grad_sum == GradSum::tree) {
        add_gather(line(Phase::reduce, CommGroup::instances, Collective::all_gather, "nodes"),
                   mine * bucket.owned, others * bucket.owned, senders, bucket.count);
      } else {
        const std::int64_t bytes = bin_bytes(bucket.owned);
        add_gather(line(Phase::reduce, CommGroup::instances, Collective::all_gather, "bins"), bytes,
                   (shape_.instances - 1) * bytes, shape_.instances - 1, bucket.count);
      }
    }
  }

  /// Stage 3: units are gathered in every micro-step, also on ranks without a micro-batch in it.
  void gather_units() {
    const auto nothing = [](std::int64_t) {};
    const auto gather = [&](std::size_t unit) {
      gather_shards(Phase::reduce, "units", shape_.units[unit], shape_.micro_steps());
    };
    walk_micro_step(shape_, true, {nothing, nothing, gather, [](std::size_t) {}});
  }

  /// A word for every block that has a scale, so many at a time.
  void join_amax(Phase phase, std::initializer_list<std::int64_t> blocks_with_words,
                 std::string_view what) {
    constexpr std::int64_t most_words = std::int64_t{1} << 16;
    for (const CommGroup group : {CommGroup::shards, CommGroup::tp}) {
      if (group == CommGroup::shards && shape_.stage == 0) continue;
      for (const std::int64_t blocks : blocks_with_words) {
        for (std::int64_t first = 0; first < blocks; first += most_words)
          words(phase, group, std::min(most_words, blocks - first), what);
      }
    }
  }

  /// Matrices of the rule muon (R28): to the ranks that compute, completed over TP, and back.
  void exchange_matrices() {
    const auto add_exchange = [&](CommGroup group, Collective collective, std::string_view what,
                                  const MatrixUse::Exchange& exchange) {
      TrafficLine* const sent =
          exchange.calls > 0 ? line(Phase::update, group, collective, what) : nullptr;
      if (sent == nullptr) return;
      sent->calls += exchange.calls;
      sent->messages += exchange.messages;
      sent->messages_received += exchange.messages_received;
      sent->sent_bytes += exchange.sent_bytes;
      sent->received_bytes += exchange.received_bytes;
    };
    const MatrixUse& use = shape_.matrices;
    add_exchange(CommGroup::shards, Collective::all_to_all, "directions", use.there);
    add_exchange(CommGroup::tp, Collective::all_gather, "TP directions", use.tp);
    add_exchange(CommGroup::tp, Collective::all_to_all, "columns of X", use.slices);
    add_exchange(CommGroup::tp, Collective::all_reduce, "norms of matrices", use.norms);
    add_exchange(CommGroup::tp, Collective::all_to_all, "partial folds", use.folds);
    add_exchange(CommGroup::tp, Collective::all_gather, "rows of A and B", use.rows);
    add_exchange(CommGroup::shards, Collective::all_to_all, "orthogonal", use.back);
  }

  void gather_parameters() {
    const std::int64_t copies = shape_.column_blocks > 0 ? 2 : 1;
    if (shape_.stage == 3) gather_shards(Phase::gather, "persistent", shape_.persistent, copies);
    if (shape_.stage != 1 && shape_.stage != 2) return;
    for (std::int64_t copy = 0; copy < copies; ++copy)
      gather_buckets(Phase::gather, "parameters", num_bytes(shape_.param_dtype));
  }

  void gather_shards(Phase phase, std::string_view what, const GatherShape& gathered,
                     std::int64_t times) {
    if (gathered.all == 0 || shape_.reads_in_place()) return;
    const std::int64_t width = num_bytes(shape_.param_dtype);
    add_gather(line(phase, CommGroup::shards, Collective::all_gather, what), width * gathered.owned,
               width * (gathered.all - gathered.owned),
               gathered.owners - (gathered.owned > 0 ? 1 : 0), times);
  }

  /// Every owner's part of every bucket.
  void gather_buckets(Phase phase, std::string_view what, std::int64_t width) {
    if (shape_.reads_in_place()) return;
    for (const BucketShape& bucket : shape_.buckets) {
      add_gather(line(phase, CommGroup::shards, Collective::all_gather, what), width * bucket.owned,
                 width * bucket.owned_by_others(), bucket.other_owners(), bucket.count);
    }
  }

  const PredictedStep& shape_;
  LeafStacks& stacks_;
  StepTraffic traffic_;
  std::int64_t my_leaves_ = 0, other_leaves_ = 0;  ///< of this instance
  std::int64_t my_nodes_ = 0;                      ///< left on the stack
  std::int64_t my_node_bytes_ = 0;     ///< of one element in all of them, as they travel
  std::int64_t other_node_bytes_ = 0;  ///< and in those of the other ranks
  std::int64_t other_holders_ = 0;     ///< other ranks with a leaf
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

StepTraffic predict_traffic(const PredictedStep& shape, bool skipped) {
  LeafStacks stacks(shape);
  return TrafficWalk(shape, stacks).all(skipped);
}

}  // namespace zeroproof
