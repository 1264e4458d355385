#include "verification/faults/implementations/plain_reduce.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "common/base/float_formats.hpp"
#include "cuda/comm/exchange/micro_batches.hpp"
#include "cuda/comm/exchange/step_ranks.hpp"

namespace zeroproof::verification {
namespace {

Values widened(const TensorView& leaf) {
  Values values(static_cast<std::size_t>(leaf.numel));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = leaf.dtype == DType::bf16   ? to_float(static_cast<const bf16*>(leaf.data)[i])
                : leaf.dtype == DType::fp16 ? to_float(static_cast<const fp16*>(leaf.data)[i])
                                            : static_cast<const float*>(leaf.data)[i];
  }
  return values;
}

/// Every rank's values, one after another; counts: [world_size].
std::vector<float> gathered(Communicator* group, const std::vector<float>& mine,
                            const std::vector<std::size_t>& counts) {
  if (group == nullptr) return mine;
  std::vector<float> all(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
  std::vector<Span<std::byte>> receive;
  std::size_t at = 0;
  for (const std::size_t count : counts) {
    receive.push_back(std::as_writable_bytes(Span<float>(all).subspan(at, count)));
    at += count;
  }
  group->all_gather(std::as_bytes(Span<const float>(mine)), receive);
  return all;
}

}  // namespace

Leaves gather_leaves(const OptimizerSetup& setup, GradSource& grads, bool with_tp) {
  Leaves leaves;
  leaves.own_rank = cuda::own_data_rank(setup);
  leaves.shard_ranks = setup.comm->world_size();
  leaves.cp = setup.cp;
  const auto numel = static_cast<std::size_t>(setup.layout->padded_numel());
  std::vector<float> mine;
  for (const std::int64_t j : cuda::own_micro_batches(setup)) {
    Values values = widened(grads.micro_batch_grad(j));
    if (with_tp) add_tp_parts(setup, values);
    mine.insert(mine.end(), values.begin(), values.end());
  }
  std::vector<std::size_t> of_instance(cuda::instances(setup), 0);
  std::vector<std::size_t> of_rank;  // of this instance
  for (int rank = 0; rank < cuda::data_ranks(setup); ++rank) {
    std::vector<std::int64_t> numbers = cuda::micro_batches_of(setup, rank);
    for (std::int64_t& number : numbers) number = number * setup.cp + rank % setup.cp;
    const int instance = rank / leaves.shard_ranks;
    of_instance[instance] += numbers.size() * numel;
    if (instance == cuda::instance(setup)) of_rank.push_back(numbers.size() * numel);
    leaves.rank_leaves.push_back(std::move(numbers));
  }
  const std::vector<float> all =
      gathered(setup.replicas, gathered(setup.comm, mine, of_rank), of_instance);
  leaves.of.resize(setup.micro_batches * setup.cp);
  auto at = all.begin();
  for (const std::vector<std::int64_t>& numbers : leaves.rank_leaves) {
    for (const std::int64_t number : numbers) {
      const auto end = at + static_cast<std::ptrdiff_t>(numel);
      leaves.of[number].assign(at, end);
      at = end;
    }
  }
  return leaves;
}

void add_tp_parts(const OptimizerSetup& setup, Values& values) {
  if (setup.tp == nullptr) return;
  const auto ranks = static_cast<std::size_t>(cuda::tp_ranks(setup));
  const std::vector<float> all =
      gathered(setup.tp, values, std::vector<std::size_t>(ranks, values.size()));
  Leaves parts;
  for (std::size_t r = 0; r < ranks; ++r) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(r * values.size());
    parts.of.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(values.size()));
  }
  const Values sum = tree(parts, numbers_to(parts.count()));
  for (const Piece& piece : setup.layout->pieces({{0, setup.layout->padded_numel()}})) {
    if (!cuda::tp_replicated(setup, piece.tensor)) continue;
    std::copy_n(sum.begin() + piece.global_begin, piece.numel, values.begin() + piece.global_begin);
  }
}

Values added(Values a, const Values& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

Values tree(const Leaves& leaves, Span<const std::int64_t> numbers) {
  if (numbers.size() == 1) return leaves.of[numbers.front()];
  const std::size_t left = std::bit_ceil(numbers.size()) / 2;
  return added(tree(leaves, numbers.first(left)), tree(leaves, numbers.subspan(left)));
}

std::vector<std::int64_t> numbers_to(std::int64_t count) {
  std::vector<std::int64_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), std::int64_t{0});
  return numbers;
}

}  // namespace zeroproof::verification
