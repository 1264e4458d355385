#include "verification/compare/judge/exact_sums.hpp"

#include <algorithm>

#include "reference/buffers.hpp"
#include "reference/zero/sharded/tp_parts.hpp"

namespace zeroproof::verification {
namespace {

/// Sums the values over all ranks of a group, on every one of them.
void add_over(Communicator* group, std::vector<double>& values) {
  if (group == nullptr || group->world_size() == 1) return;
  std::vector<std::vector<double>> all(group->world_size(), std::vector<double>(values.size()));
  std::vector<Span<std::byte>> receive;
  for (std::vector<double>& of_rank : all)
    receive.push_back(std::as_writable_bytes(Span<double>(of_rank)));
  group->all_gather(std::as_bytes(Span<const double>(values)), receive);
  std::fill(values.begin(), values.end(), 0.0);
  for (const std::vector<double>& of_rank : all) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += of_rank[i];
  }
}

}  // namespace

ExactSums exact_sums(const OptimizerSetup& setup, const std::vector<std::int64_t>& own,
                     GradProvider& leaves) {
  const FlatRange everything{0, setup.layout->padded_numel()};
  const std::vector<Piece> pieces = setup.layout->pieces({everything});
  ExactSums exact;
  exact.sums.resize(everything.numel());
  exact.magnitudes.resize(exact.sums.size());
  exact.terms = setup.micro_batches * setup.cp;
  for (const std::int64_t j : own) {
    std::vector<float> part = reference::widen_leaf(leaves.micro_batch_grad(j).view(), pieces);
    reference::combine_tp_parts(setup, everything, part);
    for (const Piece& piece : pieces) {
      for (std::int64_t i = piece.global_begin; i < piece.global_begin + piece.numel; ++i) {
        const auto index = static_cast<std::size_t>(i);
        exact.add(index, static_cast<double>(part[index]));
      }
    }
  }
  for (std::vector<double>* const values : {&exact.sums, &exact.magnitudes}) {
    add_over(setup.comm, *values);
    add_over(setup.replicas, *values);
  }
  return exact;
}

}  // namespace zeroproof::verification
