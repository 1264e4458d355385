#include "cuda/zero/bucket_reduce.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/error.hpp"
#include "cuda/host/stream_copy.hpp"
#include "cuda/zero/micro_batches.hpp"
#include "cuda/zero/packed_exchange.hpp"
#include "cuda/zero/tp_parts.hpp"

namespace zeroproof::cuda {
namespace {

TensorView checked_leaf(const OptimizerSetup& setup, GradSource& leaves, std::int64_t micro_batch) {
  const TensorView leaf = leaves.micro_batch_grad(micro_batch);
  ZP_CHECK(leaf.dtype == setup.grad_dtype && leaf.numel == setup.layout->padded_numel() &&
               (leaf.data != nullptr || leaf.numel == 0),
           ErrorCode::invalid_argument,
           "the leaf of micro-batch " + std::to_string(micro_batch) + " has " + std::to_string(leaf.numel) +
               " " + std::string(name(leaf.dtype)) + " elements",
           "the layout has " + std::to_string(setup.layout->padded_numel()) + " and expects " +
               std::string(name(setup.grad_dtype)),
           "pass the flat gradient buffer, padding included");
  return leaf;
}

/// Whether leaves stay on their rank until the last one is there. Bins take whole leaves (R11), whose CP parts meet on
/// the owners of their elements: those leave in every micro-step.
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
  const std::int64_t numel =
      setup.stage == 0 ? setup.layout->padded_numel() : setup.shards->shard_numel(setup.comm->rank());
  return numel * static_cast<std::int64_t>(sizeof(float));
}

TensorView bucket_of(const TensorView& leaf, const FlatRange& range) {
  if (leaf.data == nullptr) return {nullptr, leaf.dtype, range.numel()};
  return {static_cast<std::byte*>(leaf.data) + range.begin * num_bytes(leaf.dtype), leaf.dtype,
          range.numel()};
}

}  // namespace

BucketReduce::BucketReduce(const OptimizerSetup& setup, const std::vector<BucketPlan>& plans,
                           const PhaseOps& ops, GradMemory& memory)
    : setup_(setup),
      plans_(plans),
      keeps_(keeps_leaves(setup)),
      numbers_(setup),
      tools_{setup, ops, memory, host::streams_past_caches(grad_sum_bytes(setup))} {
  const bool tp_parts =
      std::ranges::any_of(plans, [](const BucketPlan& plan) { return plan.replicated_numel > 0; });
  if (keeps_ && !tp_parts) all_.emplace(setup.layout->pieces({{0, setup.layout->padded_numel()}}));
}

void BucketReduce::begin() {
  if (begun_) return;
  if (!sum_) {
    switch (setup_.grad_sum) {
      case GradSum::tree:
        sum_ = make_tree_sum(tools_, numbers_, keeps_);
        break;
      case GradSum::binned:
        sum_ = make_binned_sum(tools_, numbers_, keeps_);
        break;
      case GradSum::native:
        sum_ = make_native_sum(tools_, numbers_);
        break;
    }
  }
  sum_->begin();
  begun_ = true;
}

std::optional<TensorView> BucketReduce::reduce_leaves(GradSource& leaves, const GradTarget& target) {
  clear();
  const std::vector<std::int64_t> own = own_micro_batches(setup_);
  const auto leaf_of = [&](std::int64_t i) {
    return checked_leaf(setup_, leaves, own[static_cast<std::size_t>(i)]);
  };
  if (WholeReduce::fits(setup_)) {
    if (!whole_) whole_ = std::make_unique<WholeReduce>(tools_, numbers_, state_ranges(setup_));
    return whole_->run(leaf_of, target);
  }
  begin();
  for (std::int64_t i = 0; i < micro_steps(setup_); ++i) {
    TensorView leaf{nullptr, setup_.grad_dtype, 0};  // a rank without a micro-batch has none, never zeros
    if (i < static_cast<std::int64_t>(own.size())) leaf = leaf_of(i);
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
           "bucket " + std::to_string(bucket) + " is reduced", "there are " + std::to_string(plans_.size()),
           "count buckets from 0");
  begin();
  const BucketPlan& plan = plans_[bucket];
  const std::int64_t number = numbers_.leaf_of(setup_.comm->rank(), micro_step);
  ZP_CHECK((leaf.data != nullptr) == (number >= 0) &&
               (number < 0 || (leaf.numel == plan.range.numel() && leaf.dtype == setup_.grad_dtype)),
           ErrorCode::invalid_argument,
           "the gradient of bucket " + std::to_string(bucket) + " in micro-step " +
               std::to_string(micro_step) + " has " + std::to_string(leaf.data == nullptr ? 0 : leaf.numel) +
               " " + std::string(name(leaf.dtype)) + " elements",
           "this rank has " + std::to_string(number < 0 ? 0 : plan.range.numel()) + " " +
               std::string(name(setup_.grad_dtype)) + " there",
           "pass the whole bucket on ranks with a micro-batch, nothing on the others");
  NodeValues mine;
  if (number >= 0) mine = with_tp_parts(tools_, plan, leaf);
  if (!keeps_) return exchange_leaves(plan, micro_step, mine);
  if (number >= 0) sum_->keep(plan.all, micro_step, mine);
}

/// One micro-step: everybody's leaves to the owners of their elements.
void BucketReduce::exchange_leaves(const BucketPlan& plan, std::int64_t micro_step, const NodeValues& leaf) {
  const int world = setup_.comm->world_size();
  const int rank = setup_.comm->rank();
  const DType dtype = travelling_dtype(setup_, plan);
  const std::int64_t width = num_bytes(dtype);
  std::vector<Stretches> send(static_cast<std::size_t>(world));
  std::vector<std::int64_t> recv_bytes(send.size(), 0);
  for (int r = 0; r < world; ++r) {
    const auto at = static_cast<std::size_t>(r);
    if (r == rank) continue;
    if (leaf.exists()) append(send[at], plan.part(r), leaf.view().data, plan.range.begin, width);
    if (numbers_.leaf_of(r, micro_step) >= 0) recv_bytes[at] = plan.own.numel * width;
  }
  const std::vector<Span<std::byte>> arrived =
      exchange_packed(*setup_.comm, send, recv_bytes, tools_.memory.out, tools_.memory.in);
  if (plan.own.numel == 0) return;
  std::vector<NodeValues> leaves;
  for (int r = 0; r < world; ++r) {
    if (numbers_.leaf_of(r, micro_step) < 0) continue;
    const TensorView theirs{arrived[static_cast<std::size_t>(r)].data(), dtype, plan.own.numel};
    leaves.push_back(r == rank ? leaf : NodeValues::packed(theirs));
  }
  sum_->receive(plan, micro_step, leaves);
}

void BucketReduce::finish(const GradTarget& target) {
  begin();
  // In stage 0 most of G is added up by others.
  const bool sees = setup_.stage > 0 || setup_.comm->world_size() == 1;
  for (const BucketPlan& plan : plans_) {
    const auto numel = static_cast<std::int64_t>(target.grad_sum.size());
    const TensorView all{target.grad_sum.data(), DType::fp32, numel};
    const NodeValues part = plan.whole ? NodeValues::flat(all, 0) : NodeValues::packed(plan.packed_part(all));
    sum_->finish(plan, part, sees ? target.see : SeeSum{});
  }
  sum_->end();
  if (setup_.stage == 0) gather_sums(target.grad_sum);
  clear();
}

/// Stage 0: every rank needs all of G. grad_sum: [padded_numel].
void BucketReduce::gather_sums(Span<float> grad_sum) {
  if (setup_.comm->world_size() == 1) return;
  for (const BucketPlan& plan : plans_) {
    std::vector<Stretches> places;
    for (const RankPart& part : plan.parts())
      append(places.emplace_back(), part, grad_sum.data(), 0, sizeof(float));
    gather_packed(*setup_.comm, places[static_cast<std::size_t>(setup_.comm->rank())], places,
                  tools_.memory.in);
  }
}

}  // namespace zeroproof::cuda
