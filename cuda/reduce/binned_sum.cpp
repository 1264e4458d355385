// Binned sums (R11): gradients are deposited in order of arrival.

#include <array>
#include <utility>
#include <vector>

#include "cuda/comm/exchange/micro_batches.hpp"
#include "cuda/comm/exchange/packed_exchange.hpp"
#include "cuda/reduce/binned_bins.hpp"
#include "cuda/reduce/leaf_sum.hpp"

namespace zeroproof::cuda {
namespace {

std::vector<TreeNode> first_leaves(int count) {
  std::vector<TreeNode> leaves;
  for (int i = 0; i < count; ++i) leaves.push_back({0, i});
  return leaves;
}

class BinnedLeafSum final : public LeafSum {
 public:
  BinnedLeafSum(const ReduceTools& tools, const MicroBatchIndex& numbers, bool keeps)
      : tools_(tools),
        numbers_(numbers),
        keeps_(keeps),
        numel_(keeps ? tools.setup.layout->padded_numel()
                     : tools.setup.shards->shard_numel(tools.setup.comm->rank())),
        cp_parts_(first_leaves(tools.setup.cp)) {}

  void begin() override {
    if (buffer_->numel() == 0) buffer_ = tools_.memory.bytes(bins_bytes(numel_), DType::e4m3);
    tools_.space().fill(buffer_->data(), 0, bins_bytes(numel_));
  }

  void keep(const host::PieceLoop& loop, std::int64_t, const NodeValues& leaf) override {
    deposit(loop, leaf, Bins::flat(buffer_->data(), numel_));
  }

  /// The cp parts of one gradient come from neighbouring ranks.
  void receive(const BucketPlan& plan, std::int64_t, Span<const NodeValues> leaves) override {
    const Bins bins = held(plan);
    const auto cp = static_cast<std::size_t>(tools_.setup.cp);
    for (std::size_t first = 0; first < leaves.size(); first += cp) {
      if (cp == 1) {
        deposit(plan.mine, leaves[first], bins);
        continue;
      }
      if (tools_.space().fold != nullptr) {
        const NodeValues leaf = cp_sum(plan.own.numel);
        tools_.space().fold(plan.mine, cp_parts_, leaves.subspan(first, cp), leaf);
        deposit(plan.mine, leaf, bins);
        continue;
      }
      plan.mine.run(tools_.setup.exec, [&](const Exec& exec, const Piece& piece) {
        std::array<float, host::block_numel> leaf;
        const Span<float> values(leaf.data(), static_cast<std::size_t>(piece.numel));
        tools_.fold(exec, cp_parts_, leaves.subspan(first, cp), piece, values);
        host::binned_deposit(exec, values, bins.piece(piece));
      });
    }
  }

  void finish(const BucketPlan& plan, const NodeValues& grad_sum,
              const FoldEpilogue& epilogue) override {
    if (keeps_) exchange(plan);
    if (plan.own.numel == 0) return;
    if (instances(tools_.setup) > 1) exchange_instances(plan);
    const Bins bins = mine(plan);
    if (tools_.space().finish != nullptr)
      return tools_.space().finish(plan.mine, bins.placed(), grad_sum);
    plan.mine.run(tools_.setup.exec, [&](const Exec& exec, const Piece& piece) {
      const Span<float> sum = grad_sum.part<float>(piece);
      host::binned_finish(exec, bins.piece(piece), sum);
      if (epilogue) epilogue.apply(exec, sum);
    });
  }

  void end() override {}

 private:
  Bins held(const BucketPlan& plan) const {
    return Bins::packed(buffer_->data(), numel_).part(plan.local_begin, plan.own.numel);
  }
  Bins mine(const BucketPlan& plan) const {
    return keeps_ ? Bins::flat(buffer_->data(), numel_) : held(plan);
  }

  /// One gradient including its CP parts, where they are not added block by block.
  NodeValues cp_sum(std::int64_t numel) {
    const std::int64_t bytes = numel * static_cast<std::int64_t>(sizeof(float));
    return NodeValues::packed(TensorView{tools_.memory.gathered.take(bytes), DType::fp32, numel});
  }

  void deposit(const host::PieceLoop& loop, const NodeValues& leaf, const Bins& bins) const {
    if (tools_.space().deposit != nullptr) return tools_.space().deposit(loop, leaf, bins.placed());
    loop.run(tools_.setup.exec, [&](const Exec& exec, const Piece& piece) {
      if (leaf.view().dtype == DType::fp32) {
        return host::binned_deposit(exec, leaf.part<const float>(piece), bins.piece(piece));
      }
      std::array<float, host::block_numel> wide;
      const Span<float> values(wide.data(), static_cast<std::size_t>(piece.numel));
      tools_.widen(exec, leaf.operand(piece), values);
      host::binned_deposit(exec, values, bins.piece(piece));
    });
  }

  void merge(const BucketPlan& plan, std::byte* arrived) const {
    const Bins theirs = Bins::packed(arrived, plan.own.numel);
    const Bins ours = mine(plan);
    if (tools_.space().merge != nullptr) {
      return tools_.space().merge(plan.mine, theirs.placed(), ours.placed());
    }
    plan.mine.run(tools_.setup.exec, [&](const Exec& exec, const Piece& piece) {
      host::binned_merge(exec, theirs.piece(piece), ours.piece(piece));
    });
  }

  void exchange(const BucketPlan& plan) const;
  void exchange_instances(const BucketPlan& plan) const;

  const ReduceTools& tools_;
  const MicroBatchIndex& numbers_;
  const bool keeps_;
  const std::int64_t numel_;
  const host::FoldPlan cp_parts_;
  CountedBuffer buffer_;
};

/// Receives the bins of this rank's part from every rank with micro-batches. A rank without one
/// sends nothing.
void BinnedLeafSum::exchange(const BucketPlan& plan) const {
  Communicator& comm = *tools_.comm_groups.comm;
  const int world = comm.world_size();
  const bool sends = !numbers_.nodes(comm.rank()).empty();
  const auto arrives = [&](int r) { return r != comm.rank() && !numbers_.nodes(r).empty(); };
  std::int64_t leaving = 0;
  std::int64_t arriving = 0;
  for (int r = 0; r < world; ++r) {
    if (sends && r != comm.rank()) leaving += next_part(bins_bytes(plan.part(r).numel));
    if (arrives(r)) arriving += next_part(bins_bytes(plan.own.numel));
  }
  std::byte* out = tools_.memory.out.take(leaving);
  std::byte* in = tools_.memory.in.take(arriving);
  const Bins ours = mine(plan);
  std::vector<Move> moves;
  std::vector<Span<const std::byte>> send(world);
  std::vector<Span<std::byte>> receive(send.size());
  for (int r = 0; r < world; ++r) {
    const auto at = static_cast<std::size_t>(r);
    if (sends && r != comm.rank()) {
      const RankPart part = plan.part(r);
      ours.pack_part(part, out, moves);
      send[at] = {out, static_cast<std::size_t>(bins_bytes(part.numel))};
      out += next_part(numel(send[at]));
    }
    if (arrives(r)) {
      receive[at] = {in, static_cast<std::size_t>(bins_bytes(plan.own.numel))};
      in += next_part(numel(receive[at]));
    }
  }
  tools_.space().copy_many(moves);
  if (world > 1) comm.all_to_all(send, receive);
  for (const Span<std::byte> bins : receive) {
    if (!bins.empty()) merge(plan, bins.data());
  }
}

void BinnedLeafSum::exchange_instances(const BucketPlan& plan) const {
  const OptimizerSetup& setup = tools_.setup;
  const std::int64_t bytes = bins_bytes(plan.own.numel);
  std::byte* gathered = tools_.memory.gathered.take(instances(setup) * next_part(bytes));
  std::vector<Span<std::byte>> receive;
  for (int i = 0; i < instances(setup); ++i) {
    receive.push_back({gathered + i * next_part(bytes), static_cast<std::size_t>(bytes)});
  }
  const Span<std::byte> own = receive[instance(setup)];
  std::vector<Move> moves;
  if (keeps_) {
    mine(plan).pack_part(plan.own, own.data(), moves);
  } else {
    held(plan).pack_all(own.data(), moves);
  }
  tools_.space().copy_many(moves);
  tools_.comm_groups.replicas->all_gather(own, receive);
  for (const Span<std::byte> bins : receive) {
    if (bins.data() != own.data()) merge(plan, bins.data());
  }
}

}  // namespace

std::unique_ptr<LeafSum> make_binned_sum(const ReduceTools& tools, const MicroBatchIndex& numbers,
                                         bool keeps) {
  return std::make_unique<BinnedLeafSum>(tools, numbers, keeps);
}

}  // namespace zeroproof::cuda
