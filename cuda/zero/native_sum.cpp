// Native gradient sums (R11): the communication library adds the ranks' floats. No bits are promised.

#include <algorithm>
#include <cstring>
#include <utility>

#include "cuda/zero/bucket_sum.hpp"
#include "cuda/zero/micro_batches.hpp"

namespace zeroproof::cuda {
namespace {

class NativeSum final : public BucketSum {
 public:
  NativeSum(ReduceTools& tools, const BucketPlan& plan) : tools_(tools), plan_(plan) {}

  void keep(std::int64_t, NodeValues leaf) override {
    if (sum_.exists()) return tools_.add(plan_.all, sum_, leaf);
    sum_ = std::move(leaf);
    if (sum_.owns_memory()) return;
    NodeValues own = empty_sum();
    tools_.copy(plan_.all, sum_, own);
    sum_ = std::move(own);
  }

  void receive(int, std::int64_t, NodeValues) override {}

  void finish(Span<float> grad_sum) override {
    if (!sum_.exists()) {  // no micro-batch here: the library adds zeros
      sum_ = empty_sum();
      std::memset(sum_.view().data, 0, static_cast<std::size_t>(sum_.view().num_bytes()));
    }
    NodeValues total = scattered();
    if (plan_.own.numel == 0) return;
    if (instances(tools_.setup) > 1) total = over_instances(total);
    plan_.mine.run(tools_.setup.exec, [&](const Exec&, const Piece& piece) {
      const Span<const float> from = total.part<const float>(piece);
      std::copy(from.begin(), from.end(), grad_sum.begin() + plan_.grad_index(piece));
    });
  }

 private:
  NodeValues empty_sum() const {
    return NodeValues::flat(tools_.node_buffer(plan_.range.numel()), plan_.range.begin);
  }

  /// True if the ranks' parts follow each other in the bucket in the order of ranks.
  bool in_rank_order() const {
    std::int64_t at = plan_.range.begin;
    return std::ranges::all_of(plan_.parts(), [&](const RankPart& part) {
      const bool follows = part.numel == 0 || (part.one_range() && part.begin() == at);
      at += part.numel;
      return follows;
    });
  }

  NodeValues scattered();
  NodeValues over_instances(const NodeValues& mine);

  ReduceTools& tools_;
  const BucketPlan& plan_;
  NodeValues sum_;  // this rank's leaves, flat over the bucket
};

/// Sums over this instance of the elements this rank owns.
NodeValues NativeSum::scattered() {
  Communicator& comm = *tools_.setup.comm;
  if (comm.world_size() == 1) return sum_.borrowed();
  std::vector<std::int64_t> counts;
  std::int64_t total = 0;
  for (const RankPart& part : plan_.parts()) {
    counts.push_back(part.numel);
    total += part.numel;
  }
  const auto* send = static_cast<const float*>(sum_.view().data);
  if (!in_rank_order()) {
    std::byte* out = tools_.out.take(total * static_cast<std::int64_t>(sizeof(float)));
    send = reinterpret_cast<const float*>(out);
    for (const RankPart& part : plan_.parts()) {
      pack(part, sum_.view().data, plan_.range.begin, sizeof(float), out);
      out += part.numel * static_cast<std::int64_t>(sizeof(float));
    }
  }
  auto* in =
      reinterpret_cast<float*>(tools_.in.take(plan_.own.numel * static_cast<std::int64_t>(sizeof(float))));
  comm.native_reduce_scatter({send, static_cast<std::size_t>(total)}, counts,
                             {in, static_cast<std::size_t>(plan_.own.numel)});
  return NodeValues::packed(TensorView{in, DType::fp32, plan_.own.numel});
}

/// Every instance adds a share of the elements and hands it out, so that all have the same bits.
NodeValues NativeSum::over_instances(const NodeValues& mine) {
  const OptimizerSetup& setup = tools_.setup;
  const std::int64_t numel = plan_.own.numel;
  auto* both =
      reinterpret_cast<float*>(tools_.gathered.take(2 * numel * static_cast<std::int64_t>(sizeof(float))));
  const NodeValues packed = NodeValues::packed(TensorView{both, DType::fp32, numel});
  std::memset(both, 0, static_cast<std::size_t>(numel) * sizeof(float));  // padding is added too
  tools_.copy(plan_.mine, mine, packed);
  float* result = both + numel;
  std::vector<std::int64_t> counts;
  std::vector<Span<std::byte>> receive;
  Span<float> share;
  for (int i = 0; i < instances(setup); ++i) {
    const std::int64_t begin = numel * i / instances(setup);
    const std::int64_t end = numel * (i + 1) / instances(setup);
    counts.push_back(end - begin);
    const Span<float> part(result + begin, static_cast<std::size_t>(end - begin));
    if (i == instance(setup)) share = part;
    receive.push_back(std::as_writable_bytes(part));
  }
  setup.replicas->native_reduce_scatter({both, static_cast<std::size_t>(numel)}, counts, share);
  setup.replicas->all_gather(std::as_bytes(share), receive);
  return NodeValues::packed(TensorView{result, DType::fp32, numel});
}

}  // namespace

std::unique_ptr<BucketSum> make_native_sum(ReduceTools& tools, const BucketPlan& plan) {
  return std::make_unique<NativeSum>(tools, plan);
}

}  // namespace zeroproof::cuda
