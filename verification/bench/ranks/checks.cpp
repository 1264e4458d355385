#include <cstring>
#include <map>

#include "common/base/digest.hpp"
#include "verification/bench/measure/contract_step.hpp"
#include "verification/bench/measure/values.hpp"
#include "verification/bench/ranks/suite.hpp"
#include "verification/compare/judge/native_bound.hpp"

namespace zeroproof::verification::bench {
namespace {

template <class T>
bool same_bits(Span<const T> a, Span<const T> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

bool on_all_ranks(Communicator& comm, bool ok) {
  std::uint64_t failed = ok ? 0 : 1;
  comm.all_reduce({&failed, 1}, IntegerReduce::max);
  return failed == 0;
}

/// Whether every rank has these bits.
bool same_everywhere(Communicator& comm, const void* data, std::int64_t num_bytes) {
  const Digest mine = raw_digest(data, num_bytes);
  Digest first = mine;
  comm.broadcast(std::as_writable_bytes(Span<Digest>(&first, 1)), 0);
  return on_all_ranks(comm, std::memcmp(&first, &mine, sizeof mine) == 0);
}

/// [numel] on rank 0 from the shards of all ranks, empty elsewhere.
std::vector<float> gathered(const RankData& data, Span<const float> shard) {
  const auto ranks = static_cast<std::size_t>(data.comm.world_size());
  std::vector<float> all(data.comm.rank() == 0 ? static_cast<std::size_t>(data.numel) : 0);
  std::vector<Span<const std::byte>> send(ranks);
  std::vector<Span<std::byte>> recv(ranks);
  send[0] = std::as_bytes(shard);
  for (std::size_t r = 0; r < ranks && !all.empty(); ++r)
    recv[r] = std::as_writable_bytes(Span<float>(all).subspan(r * shard.size(), shard.size()));
  data.comm.all_to_all(send, recv);
  return all;
}

/// Shards of all ranks and the parameters rank 0 sees, against the contract's; the same verdict on all ranks.
bool as_contract(const RankData& data, const ContractResult& wanted, const cuda::host::FusedState& state,
                 const void* param) {
  const std::vector<float> master = gathered(data, state.master);
  const std::vector<float> exp_avg = gathered(data, state.exp_avg);
  const std::vector<float> exp_avg_sq = gathered(data, state.exp_avg_sq);
  const bool same = data.comm.rank() != 0 ||
                    (same_bits<float>(master, wanted.master) && same_bits<float>(exp_avg, wanted.exp_avg) &&
                     same_bits<float>(exp_avg_sq, wanted.exp_avg_sq) &&
                     std::memcmp(param, wanted.param.data(), wanted.param.size() * sizeof(bf16)) == 0);
  return on_all_ranks(data.comm, same) && same_everywhere(data.comm, param, data.numel * 2);
}

ContractResult on_rank_0(const RankData& data, std::int64_t micro_batches, std::int64_t steps, bool clips) {
  if (data.comm.rank() != 0) return {};
  const FlatLayout layout({{"weight", {data.numel}}});
  return contract_steps({layout, micro_batches, micro_batches, steps, clips});
}

/// Leaves of a rank's shard, one at a time.
class ShardGrads final : public GradProvider {
 public:
  explicit ShardGrads(const FlatRange& shard) : shard_(shard) {
    leaf_.values = GuardedBuffer(shard.numel(), DType::fp32);
  }
  const GradCache::Grad& micro_batch_grad(std::int64_t micro_batch) override {
    fill_leaf(micro_batch, shard_.begin, leaf_.values.as<float>());
    return leaf_;
  }

 private:
  FlatRange shard_;
  GradCache::Grad leaf_;
};

/// The bound of R11 (native): the library has added one leaf per rank in an order of its own.
bool within_bound(const RankData& data, const float* sums) {
  ShardGrads leaves(data.shard);
  const TensorView view{const_cast<float*>(sums), DType::fp32, data.shard.numel()};
  const std::vector<Piece> pieces = {{0, 0, 0, 0, data.shard.numel()}};
  const auto found = compare_native(view, pieces, leaves, data.comm.world_size());
  return on_all_ranks(data.comm, found.differing == 0 && found.compared == data.shard.numel());
}

Span<float> floats(const TensorView& view) {
  return {static_cast<float*>(view.data), static_cast<std::size_t>(view.numel)};
}

}  // namespace

std::vector<Check> check_ranks(RankData& data, const ProductSteps& products, std::int64_t steps) {
  std::vector<Check> checks;
  std::map<std::int64_t, ContractResult> wanted;  // by micro-batches
  for (const auto& product : products) {
    const std::int64_t count = product->variant().micro_batches(data.comm.world_size());
    if (wanted.count(count) == 0) wanted[count] = on_rank_0(data, count, steps, true);
    const cuda::host::FusedState state{floats(product->buffer(BufferId::master)),
                                       floats(product->buffer(BufferId::exp_avg)),
                                       floats(product->buffer(BufferId::exp_avg_sq))};
    checks.push_back({row_name(product->variant()) + " = contract: master, moments, parameters",
                      as_contract(data, wanted[count], state, product->buffer(BufferId::param_full).data)});
  }
  checks.push_back(
      {"library reduce-scatter within the bound of R11 (native)", within_bound(data, data.scattered.data())});
  checks.push_back({"library all-reduce within the bound of R11 (native)",
                    within_bound(data, data.reduced.data() + data.shard.begin)});
  checks.push_back({"library parameters are those of all ranks",
                    same_everywhere(data.comm, data.scattered_params.data(), data.numel * 2) &&
                        same_everywhere(data.comm, data.reduced_params.data(), data.numel * 2)});
  return checks;
}

}  // namespace zeroproof::verification::bench
