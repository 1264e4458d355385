#include "cuda/step_ranks.hpp"

#include <string>
#include <vector>

#include "common/base/digest.hpp"
#include "common/base/error.hpp"
#include "common/comm/collective_call.hpp"

namespace zeroproof::cuda {
namespace {

/// Digests of all ranks of a group, in rank order; `mine` may hold those of several ranks already.
std::vector<Digest> gathered(Communicator* group, const std::vector<Digest>& mine) {
  if (group == nullptr) return mine;
  std::vector<Digest> all(mine.size() * static_cast<std::size_t>(group->world_size()));
  std::vector<Span<std::byte>> receive;
  for (std::size_t at = 0; at < all.size(); at += mine.size()) {
    receive.push_back(std::as_writable_bytes(Span<Digest>(all).subspan(at, mine.size())));
  }
  group->all_gather(std::as_bytes(Span<const Digest>(mine)), receive);
  return all;
}

}  // namespace

void require_same_scalars(const OptimizerSetup& setup, const TensorView& scalars) {
  // TP ranks are neighbours, instances stand farthest apart: gathered in this order, digests stand in rank order.
  const std::vector<Digest> mine = {raw_digest(scalars.data, scalars.num_bytes())};
  const std::vector<Digest> all = gathered(setup.replicas, gathered(setup.comm, gathered(setup.tp, mine)));
  std::vector<int> different;
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] != all[0]) different.push_back(static_cast<int>(rank));
  }
  ZP_CHECK(different.empty(), ErrorCode::comm,
           "the step scalars of " + describe_ranks(different) + " differ from those of rank 0",
           "ranks that scale the same step differently drift apart without a sign",
           "start every rank with the same settings, state and step number");
}

}  // namespace zeroproof::cuda
