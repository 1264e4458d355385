#include "cuda/bucket_reduce.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "cuda/host/grad_sum.hpp"
#include "cuda/micro_batches.hpp"

namespace zeroproof::cuda {
namespace {

template <class T>
Span<T> part(Span<T> span, std::int64_t begin, std::int64_t numel) {
  return span.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(numel));
}

Span<const std::byte> bytes_of(const TensorView& view, std::int64_t begin, std::int64_t numel) {
  const std::int64_t width = num_bytes(view.dtype);
  return {static_cast<const std::byte*>(view.data) + begin * width, static_cast<std::size_t>(numel * width)};
}

}  // namespace

std::vector<BucketPlan> plan_buckets(const OptimizerSetup& setup, bool whole) {
  std::vector<BucketPlan> plans;
  const auto rank = static_cast<std::size_t>(setup.comm->rank());
  std::int64_t local = 0;
  for (std::size_t bucket = 0; bucket < setup.shards->buckets().size(); ++bucket) {
    std::vector<FlatRange> slices;
    for (int r = 0; r < setup.comm->world_size(); ++r) slices.push_back(setup.shards->slice(bucket, r));
    const FlatRange own = slices[rank];
    plans.push_back({setup.shards->buckets()[bucket], std::move(slices),
                     host::PieceLoop(setup.layout->pieces({own})), whole ? own.begin : local});
    local += own.numel();
  }
  return plans;
}

BucketReduce::BucketReduce(const OptimizerSetup& setup, const std::vector<BucketPlan>& plans,
                           const PhaseOps& ops)
    : setup_(setup),
      plans_(plans),
      ops_(ops),
      all_pieces_(host::PieceLoop(setup.layout->pieces({{0, setup.layout->padded_numel()}}))) {}

BucketReduce::Values BucketReduce::take_buffer(std::int64_t numel) {
  const auto fits =
      std::find_if(pool_.begin(), pool_.end(), [&](const Values& b) { return b->numel() == numel; });
  if (fits == pool_.end()) return std::make_unique<GuardedBuffer>(numel, DType::fp32);
  Values buffer = std::move(*fits);
  pool_.erase(fits);
  return buffer;
}

void BucketReduce::give_buffer(Values buffer) {
  ZP_CHECK(buffer->guards_intact(), ErrorCode::internal, "the red zone of a gradient buffer was overwritten",
           "a kernel wrote outside its range", "report this with the command line");
  buffer->poison();
  pool_.push_back(std::move(buffer));
}

BucketReduce::Stack BucketReduce::make_stack(const host::PieceLoop& pieces) {
  return Stack([this, &pieces](Values& below, Values& top) {
    pieces.run(setup_.exec, [&](const Exec& exec, const Piece& piece) {
      const auto left = part(below->as<float>(), piece.local_begin, piece.numel);
      const auto right = part(top->as<float>(), piece.local_begin, piece.numel);
      ops_.add_nodes(exec, left, right, left);
    });
    give_buffer(std::move(top));
  });
}

TensorView BucketReduce::checked_leaf(LeafSource& leaves, std::int64_t micro_batch) const {
  const TensorView leaf = leaves.leaf(micro_batch);
  ZP_CHECK(leaf.dtype == setup_.leaf_dtype && leaf.numel == setup_.layout->padded_numel() &&
               (leaf.data != nullptr || leaf.numel == 0),
           ErrorCode::invalid_argument,
           "the leaf of micro-batch " + std::to_string(micro_batch) + " has " + std::to_string(leaf.numel) +
               " " + std::string(name(leaf.dtype)) + " elements",
           "the layout has " + std::to_string(setup_.layout->padded_numel()) + " and expects " +
               std::string(name(setup_.leaf_dtype)),
           "pass the flat gradient buffer, padding included");
  return leaf;
}

/// Pieces are numbered from the start of both views.
void BucketReduce::widen(const TensorView& source, Span<float> target, const host::PieceLoop& pieces) const {
  const auto count = static_cast<std::size_t>(source.numel);
  pieces.run(setup_.exec, [&](const Exec& exec, const Piece& piece) {
    const auto to = part(target, piece.local_begin, piece.numel);
    if (source.dtype == DType::bf16) {
      const Span<const bf16> from(static_cast<const bf16*>(source.data), count);
      ops_.widen_bf16(exec, part(from, piece.local_begin, piece.numel), to);
    } else if (source.dtype == DType::fp16) {
      const Span<const fp16> from(static_cast<const fp16*>(source.data), count);
      ops_.widen_fp16(exec, part(from, piece.local_begin, piece.numel), to);
    } else {
      const Span<const float> from(static_cast<const float*>(source.data), count);
      const auto values = part(from, piece.local_begin, piece.numel);
      std::copy(values.begin(), values.end(), to.begin());
    }
  });
}

void BucketReduce::reduce_contiguous(LeafSource& leaves, Span<float> grad_sum) {
  Stack stack = make_stack(all_pieces_);
  for (const std::int64_t j : own_micro_batches(setup_)) {
    const TensorView leaf = checked_leaf(leaves, j);
    Values values = take_buffer(setup_.layout->padded_numel());
    widen(leaf, values->as<float>(), all_pieces_);
    stack.push({0, j}, std::move(values));
  }
  for (const BucketPlan& plan : plans_) exchange_nodes(plan, stack.entries(), grad_sum);
  for (auto& entry : stack.entries()) give_buffer(std::move(entry.values));
  stack.entries().clear();
}

void BucketReduce::exchange_nodes(const BucketPlan& plan, std::vector<Stack::Entry>& mine,
                                  Span<float> grad_sum) {
  const auto world = static_cast<std::size_t>(setup_.comm->world_size());
  const FlatRange own = plan.slices[static_cast<std::size_t>(setup_.comm->rank())];

  // To every owner: its slice of each of my nodes, one after another.
  std::vector<std::vector<float>> outgoing(world);
  for (std::size_t d = 0; d < world; ++d) {
    for (const Stack::Entry& entry : mine) {
      const auto values = part(entry.values->as<float>(), plan.slices[d].begin, plan.slices[d].numel());
      outgoing[d].insert(outgoing[d].end(), values.begin(), values.end());
    }
  }
  std::vector<std::vector<TreeNode>> nodes(world);
  std::vector<std::vector<float>> incoming(world);
  std::vector<Span<const std::byte>> send(world);
  std::vector<Span<std::byte>> receive(world);
  for (std::size_t s = 0; s < world; ++s) {
    const auto rank = static_cast<std::int64_t>(s);
    nodes[s] = host::maximal_nodes(first_micro_batch(setup_, rank), first_micro_batch(setup_, rank + 1));
    incoming[s].resize(nodes[s].size() * static_cast<std::size_t>(own.numel()));
    send[s] = std::as_bytes(Span<const float>(outgoing[s]));
    receive[s] = std::as_writable_bytes(Span<float>(incoming[s]));
  }
  setup_.comm->all_to_all(send, receive);

  if (own.numel() == 0) return;
  Stack stack = make_stack(plan.pieces);
  for (std::size_t s = 0; s < world; ++s) {
    for (std::size_t n = 0; n < nodes[s].size(); ++n) {
      Values values = take_buffer(own.numel());
      std::memcpy(values->data(), incoming[s].data() + n * static_cast<std::size_t>(own.numel()),
                  static_cast<std::size_t>(own.numel()) * sizeof(float));
      stack.push(nodes[s][n], std::move(values));
    }
  }
  store(plan, stack.fold(), grad_sum);
}

void BucketReduce::reduce_strided(LeafSource& leaves, Span<float> grad_sum) {
  const std::int64_t world = setup_.comm->world_size();
  std::vector<Stack> stacks;
  for (const BucketPlan& plan : plans_) stacks.push_back(make_stack(plan.pieces));
  for (std::int64_t first = 0; first < setup_.micro_batches; first += world) {
    const std::int64_t mine = first + setup_.comm->rank();
    TensorView leaf;  // a rank without a micro-batch sends nothing, never zeros
    if (mine < setup_.micro_batches) leaf = checked_leaf(leaves, mine);
    for (std::size_t b = 0; b < plans_.size(); ++b) exchange_leaves(plans_[b], first, leaf, stacks[b]);
  }
  for (std::size_t b = 0; b < plans_.size(); ++b) {
    if (plans_[b].slices[static_cast<std::size_t>(setup_.comm->rank())].numel() == 0) continue;
    store(plans_[b], stacks[b].fold(), grad_sum);
  }
}

void BucketReduce::exchange_leaves(const BucketPlan& plan, std::int64_t first, const TensorView& leaf,
                                   Stack& stack) {
  const auto world = static_cast<std::size_t>(setup_.comm->world_size());
  const FlatRange own = plan.slices[static_cast<std::size_t>(setup_.comm->rank())];
  const auto own_bytes = static_cast<std::size_t>(own.numel() * num_bytes(setup_.leaf_dtype));
  std::vector<std::vector<std::byte>> incoming(world);
  std::vector<Span<const std::byte>> send(world);
  std::vector<Span<std::byte>> receive(world);
  for (std::size_t r = 0; r < world; ++r) {
    if (leaf.data != nullptr) send[r] = bytes_of(leaf, plan.slices[r].begin, plan.slices[r].numel());
    if (first + static_cast<std::int64_t>(r) < setup_.micro_batches) incoming[r].resize(own_bytes);
    receive[r] = incoming[r];
  }
  setup_.comm->all_to_all(send, receive);

  if (own.numel() == 0) return;
  for (std::size_t s = 0; s < world; ++s) {
    const std::int64_t j = first + static_cast<std::int64_t>(s);
    if (j >= setup_.micro_batches) break;
    Values values = take_buffer(own.numel());
    widen({incoming[s].data(), setup_.leaf_dtype, own.numel()}, values->as<float>(), plan.pieces);
    stack.push({0, j}, std::move(values));
  }
}

void BucketReduce::store(const BucketPlan& plan, Values sum, Span<float> grad_sum) {
  plan.pieces.run(setup_.exec, [&](const Exec&, const Piece& piece) {
    const auto from = part(sum->as<float>(), piece.local_begin, piece.numel);
    std::copy(from.begin(), from.end(),
              part(grad_sum, plan.local_begin + piece.local_begin, piece.numel).begin());
  });
  give_buffer(std::move(sum));
}

}  // namespace zeroproof::cuda
