#include "cuda/bucket_reduce.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/error.hpp"
#include "cuda/faults/fault.hpp"
#include "cuda/micro_batches.hpp"
#include "cuda/tp_parts.hpp"

namespace zeroproof::cuda {
namespace {

TensorView checked_leaf(const OptimizerSetup& setup, LeafSource& leaves, std::int64_t micro_batch) {
  const TensorView leaf = leaves.leaf(micro_batch);
  ZP_CHECK(leaf.dtype == setup.leaf_dtype && leaf.numel == setup.layout->padded_numel() &&
               (leaf.data != nullptr || leaf.numel == 0),
           ErrorCode::invalid_argument,
           "the leaf of micro-batch " + std::to_string(micro_batch) + " has " + std::to_string(leaf.numel) +
               " " + std::string(name(leaf.dtype)) + " elements",
           "the layout has " + std::to_string(setup.layout->padded_numel()) + " and expects " +
               std::string(name(setup.leaf_dtype)),
           "pass the flat gradient buffer, padding included");
  return leaf;
}

TensorView bucket_of(const TensorView& leaf, const FlatRange& range) {
  if (leaf.data == nullptr) return {nullptr, leaf.dtype, range.numel()};
  return {static_cast<std::byte*>(leaf.data) + range.begin * num_bytes(leaf.dtype), leaf.dtype,
          range.numel()};
}

}  // namespace

BucketReduce::BucketReduce(const OptimizerSetup& setup, const std::vector<BucketPlan>& plans,
                           const PhaseOps& ops, MemoryLedger& ledger)
    : setup_(setup),
      plans_(plans),
      keeps_(setup.stage < 2 || setup.grad_sum == GradSum::native),
      units_(setup),
      tools_{setup, ops, ledger} {}

void BucketReduce::clear() {
  sums_.clear();
  tools_.spare.clear();
  tools_.free_wires();
}

void BucketReduce::begin() {
  tools_.keeps_spare = true;
  for (const BucketPlan& plan : plans_) {
    switch (setup_.grad_sum) {
      case GradSum::tree:
        sums_.push_back(make_tree_sum(tools_, units_, plan, keeps_));
        break;
      case GradSum::binned:
        sums_.push_back(make_binned_sum(tools_, units_, plan, keeps_));
        break;
      case GradSum::native:
        sums_.push_back(make_native_sum(tools_, plan));
        break;
    }
  }
}

void BucketReduce::reduce_leaves(LeafSource& leaves, Span<float> grad_sum) {
  clear();
  const std::vector<std::int64_t> own = own_micro_batches(setup_);
  for (std::int64_t i = 0; i < micro_steps(setup_); ++i) {
    const auto at = static_cast<std::size_t>(i);
    TensorView leaf{nullptr, setup_.leaf_dtype, 0};  // a rank without a micro-batch has none, never zeros
    if (at < own.size()) leaf = checked_leaf(setup_, leaves, own[at]);
    for (std::size_t b = 0; b < plans_.size(); ++b) reduce(b, i, bucket_of(leaf, plans_[b].range));
  }
  finish(grad_sum);
}

void BucketReduce::reduce(std::size_t bucket, std::int64_t micro_step, const TensorView& leaf) {
  ZP_CHECK(bucket < plans_.size(), ErrorCode::invalid_argument,
           "bucket " + std::to_string(bucket) + " is reduced", "there are " + std::to_string(plans_.size()),
           "count buckets from 0");
  if (sums_.empty()) begin();
  const BucketPlan& plan = plans_[bucket];
  const std::int64_t unit = units_.unit(setup_.comm->rank(), micro_step);
  ZP_CHECK((leaf.data != nullptr) == (unit >= 0) &&
               (unit < 0 || (leaf.numel == plan.range.numel() && leaf.dtype == setup_.leaf_dtype)),
           ErrorCode::invalid_argument,
           "the gradient of bucket " + std::to_string(bucket) + " in micro-step " +
               std::to_string(micro_step) + " has " + std::to_string(leaf.data == nullptr ? 0 : leaf.numel) +
               " " + std::string(name(leaf.dtype)) + " elements",
           "this rank has " + std::to_string(unit < 0 ? 0 : plan.range.numel()) + " " +
               std::string(name(setup_.leaf_dtype)) + " there",
           "pass the whole bucket on ranks with a micro-batch, nothing on the others");
  NodeValues mine;
  if (unit >= 0) mine = with_tp_parts(tools_, plan, leaf);
  if (!keeps_) return exchange_leaves(plan, micro_step, mine, *sums_[bucket]);
  if (unit >= 0) sums_[bucket]->keep(unit, std::move(mine));
}

/// One micro-step: everybody's leaves to the owners of their elements.
void BucketReduce::exchange_leaves(const BucketPlan& plan, std::int64_t micro_step, const NodeValues& leaf,
                                   BucketSum& sum) {
  const int world = setup_.comm->world_size();
  const int rank = setup_.comm->rank();
  const DType dtype = travelling_dtype(setup_, plan);
  const std::int64_t width = num_bytes(dtype);
  const auto arrives = [&](int r) { return r != rank && units_.unit(r, micro_step) >= 0; };
  std::int64_t packed = 0;
  std::int64_t arriving = 0;
  for (int r = 0; r < world; ++r) {
    const RankPart& part = plan.part(r);
    if (leaf.exists() && r != rank && !part.one_range()) packed += part.numel * width;
    if (arrives(r)) arriving += plan.own.numel * width;
  }
  std::byte* out = tools_.out.take(packed);
  std::byte* in = tools_.in.take(arriving);
  std::vector<Span<const std::byte>> send(static_cast<std::size_t>(world));
  std::vector<Span<std::byte>> receive(send.size());
  for (int r = 0; r < world; ++r) {
    const auto at = static_cast<std::size_t>(r);
    const RankPart& part = plan.part(static_cast<int>(at));
    if (leaf.exists() && r != rank && part.numel > 0) {
      const std::byte* from =
          static_cast<const std::byte*>(leaf.view().data) + (part.begin() - plan.range.begin) * width;
      if (!part.one_range()) {
        pack(part, leaf.view().data, plan.range.begin, width, out);
        from = out;
        out += part.numel * width;
      }
      send[at] = {from, static_cast<std::size_t>(part.numel * width)};
    }
    if (arrives(r)) {
      receive[at] = {in, static_cast<std::size_t>(plan.own.numel * width)};
      in += plan.own.numel * width;
    }
  }
  if (world > 1) setup_.comm->all_to_all(send, receive);
  if (plan.own.numel == 0) return;
  for (int r = 0; r < world; ++r) {
    const std::int64_t unit = units_.unit(r, micro_step);
    const int holder = data_rank(setup_, instance(setup_), r) / setup_.cp;
    if (unit < 0 && ZP_FAULT(setup_.exec, "idle-rank-sends-zeros")) {
      CountedBuffer zeros = tools_.node_buffer(plan.own.numel);
      std::ranges::fill(zeros->as<float>(), 0.0F);
      sum.receive(holder, micro_step * world + r, NodeValues::packed(std::move(zeros)));
    }
    if (unit < 0) continue;
    sum.receive(holder, ZP_FAULT(setup_.exec, "strided-local-index") ? micro_step : unit,
                r == rank ? leaf.borrowed()
                          : NodeValues::packed(TensorView{receive[static_cast<std::size_t>(r)].data(), dtype,
                                                          plan.own.numel}));
  }
}

void BucketReduce::finish(Span<float> grad_sum) {
  if (sums_.empty()) begin();
  tools_.keeps_spare = false;  // from here on memory is only given back
  tools_.spare.clear();
  for (std::unique_ptr<BucketSum>& sum : sums_) {
    sum->finish(grad_sum);
    sum.reset();
  }
  if (setup_.stage == 0) gather_sums(grad_sum);
  clear();
}

/// Stage 0: every rank needs all of G. grad_sum: [padded_numel].
void BucketReduce::gather_sums(Span<float> grad_sum) {
  const auto rank = static_cast<std::size_t>(setup_.comm->rank());
  constexpr std::int64_t width = sizeof(float);
  if (setup_.comm->world_size() == 1) return;
  for (const BucketPlan& plan : plans_) {
    std::int64_t packed = 0;
    for (const RankPart& part : plan.parts()) packed += part.one_range() ? 0 : part.numel * width;
    std::byte* wire = tools_.in.take(packed);
    std::vector<Span<std::byte>> receive;
    for (const RankPart& part : plan.parts()) {
      const auto bytes = static_cast<std::size_t>(part.numel * width);
      if (part.one_range()) {
        receive.push_back({reinterpret_cast<std::byte*>(grad_sum.data() + part.begin()), bytes});
      } else {
        receive.push_back({wire, bytes});
        wire += bytes;
      }
    }
    if (!plan.own.one_range()) pack(plan.own, grad_sum.data(), 0, width, receive[rank].data());
    setup_.comm->all_gather(receive[rank], receive);
    for (std::size_t r = 0; r < receive.size(); ++r) {
      if (!plan.part(static_cast<int>(r)).one_range() && r != rank) {
        unpack(plan.part(static_cast<int>(r)), receive[r].data(), grad_sum.data(), 0, width);
      }
    }
  }
}

}  // namespace zeroproof::cuda
