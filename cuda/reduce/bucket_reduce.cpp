#include "cuda/reduce/bucket_reduce.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/error.hpp"
#include "cuda/comm/exchange/micro_batches.hpp"
#include "cuda/comm/exchange/packed_exchange.hpp"
#include "cuda/host/base/stream_copy.hpp"
#include "cuda/reduce/checked_leaf.hpp"
#include "cuda/reduce/tp_parts.hpp"

namespace zeroproof::cuda {
namespace {

/// Whether gradients stay on their rank until the last one is present. Bins take whole gradients
/// (R11), whose CP parts meet on the owners of their elements, so those are sent in every
/// micro-step.
bool keeps_leaves(const OptimizerSetup& setup) {
  switch (setup.grad_sum) {
    case GradSum::tree:
      return setup.stage < 2;
    case GradSum::binned:
      return setup.stage < 2 && setup.cp == 1;
    case GradSum::native:
      break;
  }
  return true;
}

std::int64_t grad_sum_bytes(const OptimizerSetup& setup) {
  const std::int64_t numel = setup.stage == 0 ? setup.layout->padded_numel()
                                              : setup.shards->shard_numel(setup.comm->rank());
  return numel * static_cast<std::int64_t>(sizeof(float));
}

TensorView bucket_of(const TensorView& leaf, const FlatRange& range) {
  if (leaf.data == nullptr) return {nullptr, leaf.dtype, range.numel()};
  return {static_cast<std::byte*>(leaf.data) + range.begin * num_bytes(leaf.dtype), leaf.dtype,
          range.numel()};
}

}  // namespace

BucketReduce::BucketReduce(const OptimizerSetup& setup, const std::vector<BucketPlan>& plans,
                           const KernelTable& ops, GradMemory& memory,
                           const SharedMemoryGroup* near, const CommGroups& comm_groups)
    : setup_(setup),
      plans_(plans),
      keeps_(keeps_leaves(setup)),
      shared_memory_group_(near != nullptr && near->any() ? near : nullptr),
      numbers_(setup),
      tools_{setup, ops, memory, comm_groups, host::streams_past_caches(grad_sum_bytes(setup))},
      finished_(plans.size(), false) {
  const bool tp_parts =
      std::ranges::any_of(plans, [](const BucketPlan& plan) { return plan.replicated_numel > 0; });
  if ((keeps_ || reads_leaves()) && !tp_parts)
    all_.emplace(setup.layout->pieces({{0, setup.layout->padded_numel()}}));
}

void BucketReduce::make_sum() {
  if (sum_) return;
  switch (setup_.grad_sum) {
    case GradSum::tree:
      sum_ = keeps_ && shared_memory_group_ != nullptr
                 ? make_window_sum(tools_, numbers_, *shared_memory_group_)
                 : make_tree_sum(tools_, numbers_, keeps_);
      break;
    case GradSum::binned:
      sum_ = make_binned_sum(tools_, numbers_, keeps_);
      break;
    case GradSum::native:
      sum_ = make_native_sum(tools_, numbers_);
      break;
  }
}

GradWindow& BucketReduce::grad_window(std::int64_t numel) {
  if (leaves_ && !leaves_->holds(numel)) leaves_.reset();
  if (!leaves_) leaves_.emplace(tools_, numbers_, *shared_memory_group_, numel);
  return *leaves_;
}

TensorView BucketReduce::leaf_buffer() {
  if (shared_memory_group_ == nullptr) return {};
  if (reads_leaves()) {
    const TensorView mine = grad_window(setup_.layout->padded_numel()).mine();
    return mine.dtype == setup_.grad_dtype && mine.numel > 0 ? mine : TensorView{};
  }
  make_sum();
  return sum_->leaf_buffer();
}

void BucketReduce::begin() {
  if (begun_) return;
  make_sum();
  sum_->begin();
  begun_ = true;
}

std::optional<TensorView> BucketReduce::reduce_leaves(GradSource& leaves,
                                                      const GradTarget& target) {
  clear();
  const std::vector<std::int64_t> own = own_micro_batches(setup_);
  const auto leaf_of = [&](std::int64_t i) {
    return checked_leaf(setup_, tools_.space(), leaves, own[i]);
  };
  if (WholeReduce::fits(setup_)) {
    if (!whole_) whole_ = std::make_unique<WholeReduce>(tools_, numbers_, state_ranges(setup_));
    return whole_->run(leaf_of, target);
  }
  begin();
  for (std::int64_t i = 0; i < micro_steps(setup_); ++i) {
    TensorView leaf{nullptr, setup_.grad_dtype,
                    0};  // a rank without a micro-batch has no element, not zeros
    if (i < static_cast<std::int64_t>(own.size())) leaf = leaf_of(i);
    if (all_ && !keeps_) {
      share_leaf(i, leaf);
      continue;
    }
    if (all_) {
      if (leaf.data != nullptr) sum_->keep(*all_, i, NodeValues::flat(leaf, 0));
      continue;
    }
    for (std::size_t b = 0; b < plans_.size(); ++b) reduce(b, i, bucket_of(leaf, plans_[b].range));
  }
  finish(target);
  return std::nullopt;
}

void BucketReduce::reduce(std::size_t bucket, std::int64_t micro_step, const TensorView& leaf) {
  ZP_CHECK(bucket < plans_.size(), ErrorCode::invalid_argument,
           "bucket " + std::to_string(bucket) + " is out of range",
           "the number of buckets is " + std::to_string(plans_.size()), "count buckets from 0");
  begin();
  const BucketPlan& plan = plans_[bucket];
  const std::int64_t number = numbers_.leaf_of(setup_.comm->rank(), micro_step);
  ZP_CHECK(
      (leaf.data != nullptr) == (number >= 0) &&
          (number < 0 || (leaf.numel == plan.range.numel() && leaf.dtype == setup_.grad_dtype)),
      ErrorCode::invalid_argument,
      "the gradient of bucket " + std::to_string(bucket) + " in micro-step " +
          std::to_string(micro_step) + " has " +
          std::to_string(leaf.data == nullptr ? 0 : leaf.numel) + " " +
          std::string(name(leaf.dtype)) + " elements",
      "this rank expects " + std::to_string(number < 0 ? 0 : plan.range.numel()) + " " +
          std::string(name(setup_.grad_dtype)) + " elements",
      "pass the whole bucket on ranks with a micro-batch, nothing on the others");
  NodeValues mine;
  if (number >= 0) mine = with_tp_parts(tools_, plan, leaf);
  if (!keeps_) {
    exchange_leaves(plan, micro_step, mine);
    if (target_ && micro_step + 1 == micro_steps(setup_)) finish_bucket(bucket, *target_);
    return;
  }
  if (number >= 0) sum_->keep(plan.all, micro_step, mine);
}

/// Adds a whole gradient to all buckets at once.
void BucketReduce::share_leaf(std::int64_t micro_step, const TensorView& leaf) {
  GradWindow& window = grad_window(setup_.layout->padded_numel());
  NodeValues mine;
  if (leaf.data != nullptr) mine = NodeValues::flat(leaf, 0);
  if (mine.exists()) window.put(*all_, mine);
  window.fence();
  for (const BucketPlan& plan : plans_) receive_leaves(plan, micro_step, mine);
  window.fence();
}

void BucketReduce::exchange_leaves(const BucketPlan& plan, std::int64_t micro_step,
                                   const NodeValues& leaf) {
  if (!reads_leaves()) return receive_leaves(plan, micro_step, leaf);
  std::int64_t largest = 0;
  for (const BucketPlan& any : plans_) largest = std::max(largest, any.range.numel());
  GradWindow& window = grad_window(largest);
  if (leaf.exists()) window.put(plan.all, leaf);
  window.fence();
  receive_leaves(plan, micro_step, leaf);
  window.fence();
}

/// One micro-step: sends all ranks' gradients to the owners of their elements, which read those of
/// the same machine in place.
void BucketReduce::receive_leaves(const BucketPlan& plan, std::int64_t micro_step,
                                  const NodeValues& leaf) {
  const int world = setup_.comm->world_size();
  const int rank = setup_.comm->rank();
  const DType dtype = travelling_dtype(setup_, plan);
  const std::int64_t width = num_bytes(dtype);
  const auto read = [&](int r) { return reads_leaves() && shared_memory_group_->near(r); };
  std::vector<Stretches> send(world);
  std::vector<std::int64_t> recv_bytes(send.size(), 0);
  for (int r = 0; r < world; ++r) {
    const auto at = static_cast<std::size_t>(r);
    if (r == rank || read(r)) continue;
    if (leaf.exists()) append(send[at], plan.part(r), leaf.view().data, leaf.base(), width);
    if (numbers_.leaf_of(r, micro_step) >= 0) recv_bytes[at] = plan.own.numel * width;
  }
  std::vector<Span<std::byte>> arrived(send.size());
  if (!reads_leaves() || !shared_memory_group_->all()) {
    arrived = exchange_packed(*tools_.comm_groups.comm, send, recv_bytes, tools_.memory.out,
                              tools_.memory.in);
  }
  if (plan.own.numel == 0) return;
  std::vector<NodeValues> leaves;
  for (int r = 0; r < world; ++r) {
    if (numbers_.leaf_of(r, micro_step) < 0) continue;
    const TensorView theirs{arrived[r].data(), dtype, plan.own.numel};
    leaves.push_back(r == rank ? leaf
                     : read(r) ? leaves_->of(r, plan)
                               : NodeValues::packed(theirs));
  }
  sum_->receive(plan, micro_step, leaves);
}

void BucketReduce::finish(const GradTarget& target) {
  begin();
  sum_->publish();
  for (std::size_t b = 0; b < plans_.size(); ++b) {
    if (!finished_[b]) finish_bucket(b, target);
  }
  sum_->end();
  if (leaves_) leaves_->end();
  if (setup_.stage == 0) gather_sums(target.grad_sum);
  clear();
}

void BucketReduce::finish_bucket(std::size_t bucket, const GradTarget& target) {
  // In stage 0 most of G is summed on other ranks.
  const bool has_epilogue = setup_.stage > 0 || setup_.comm->world_size() == 1;
  const BucketPlan& plan = plans_[bucket];
  const TensorView all{target.grad_sum.data(), DType::fp32, numel(target.grad_sum)};
  const NodeValues part =
      plan.whole ? NodeValues::flat(all, 0) : NodeValues::packed(plan.packed_part(all));
  sum_->finish(plan, part, has_epilogue ? target.epilogue : FoldEpilogue{});
  finished_[bucket] = true;
}

void BucketReduce::clear() {
  begun_ = false;
  target_.reset();
  finished_.assign(plans_.size(), false);
}

/// Stage 0: distributes all of G to every rank. grad_sum: [padded_numel].
void BucketReduce::gather_sums(Span<float> grad_sum) {
  if (setup_.comm->world_size() == 1) return;
  if (sums_ != nullptr) return copy_sums(grad_sum);
  for (const BucketPlan& plan : plans_) {
    std::vector<Stretches> places;
    for (const RankPart& part : plan.parts())
      append(places.emplace_back(), part, grad_sum.data(), 0, sizeof(float));
    gather_packed(*tools_.comm_groups.comm, places[setup_.comm->rank()], places, tools_.memory.in);
  }
}

/// The same where ranks read each other's parts.
void BucketReduce::copy_sums(Span<float> grad_sum) {
  sums_->fence();
  const NodeValues mine = NodeValues::flat({grad_sum.data(), DType::fp32, numel(grad_sum)}, 0);
  for (int rank = 0; rank < setup_.comm->world_size(); ++rank) {
    if (rank == setup_.comm->rank()) continue;
    const NodeValues theirs = NodeValues::flat(sums_->of(shared_memory_group_->place(rank), 0), 0);
    const host::PieceLoop loop(setup_.layout->pieces(setup_.shards->shard(rank)));
    loop.run(setup_.exec, [&](const Exec& exec, const Piece& piece) {
      host::copy_bytes(exec, theirs.bytes(piece), mine.bytes(piece), tools_.streams);
    });
  }
  sums_->fence();  // before G is changed in place
}

}  // namespace zeroproof::cuda
