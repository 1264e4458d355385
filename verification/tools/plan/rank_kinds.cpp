#include "verification/tools/plan/rank_kinds.hpp"

#include <algorithm>
#include <compare>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace zeroproof::verification {
namespace {

/// The entries that are combined with every leaf of one rank: ranks with equal values combine
/// theirs in the same way. Consecutive leaves combine as far as they fill blocks of a power of two,
/// so the largest such block determines it.
struct StackKind {
  std::int64_t leaves = 0;
  std::int64_t block = 1;  ///< leaves of the largest block that is filled
  std::int64_t start = 0;  ///< place of the first leaf in a block of that size
  auto operator<=>(const StackKind&) const = default;
};

/// Properties of a rank on which its bytes depend, besides the run.
struct RankKind {
  std::int64_t full_bucket = 0, last_bucket = 0;  ///< elements of this rank
  StackKind stack;                                ///< effect of its leaves on its own stack
  bool holds_copy = false;                        ///< has the one copy of the parameters
  int instance = 0;  ///< number of its instance's effect on the stacks of owners
  auto operator<=>(const RankKind&) const = default;
};

/// For ranks that do not keep their leaves the number of leaves is enough.
StackKind stack_kind(const PredictedStep& run, const MicroBatchIndex& leaves) {
  StackKind kind{leaves.count};
  if (!run.keeps_leaves() || leaves.step > 1) return kind;
  for (std::int64_t block = 2; block <= leaves.count; block *= 2) {
    const std::int64_t start = leaves.first % block;
    if ((start == 0 ? 0 : block - start) + block > leaves.count) break;
    kind.block = block;
    kind.start = start;
  }
  return kind;
}

/// The same for all ranks of an instance: nodes left on stacks, and leaves that arrive in every
/// micro-step; a character for every leaf, as there may be millions.
std::string instance_moves(const PredictedStep& run, int instance) {
  std::vector<MicroBatchIndex> ranks;
  for (int rank = 0; rank < run.world_size; ++rank) {
    ranks.push_back(micro_batch_index(run, std::int64_t{instance} * run.world_size + rank));
  }
  const JoinedNodes left = instance_nodes(run, instance);
  std::string moves = std::to_string(left.nodes) + ' ' + std::to_string(left.leaves);
  std::vector<NodeCount> stacks(ranks.size());
  for (std::int64_t i = 0; i < run.micro_steps(); ++i) {
    moves += ' ';
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      if (i >= ranks[rank].count) continue;
      const std::size_t holder =
          run.keeps_leaves() ? rank : rank / static_cast<std::size_t>(run.cp);
      NodeCount& stack = stacks[!run.keeps_leaves() && run.strided() ? 0 : holder];
      moves += static_cast<char>('A' + stack.push(ranks[rank].at(i)));
    }
  }
  return moves;
}

}  // namespace

RankKinds kinds_of_ranks(const PredictedStep& run, std::int64_t bucket_numel, LeafStacks& stacks) {
  const std::int64_t full = std::min(bucket_numel, run.padded_numel);
  const std::int64_t rest = run.padded_numel % bucket_numel;
  std::map<std::string, int> moves;
  std::map<std::pair<InstanceStacks, JoinedNodes>, int> sums;
  std::set<RankKind> kinds, memories;
  RankKinds result;
  for (int instance = 0; instance < run.instances; ++instance) {
    const auto number = [](auto& seen, auto what) {
      return seen.emplace(std::move(what), static_cast<int>(seen.size())).first->second;
    };
    const bool alone = run.instances == 1;
    const int of_moves = alone ? 0 : number(moves, instance_moves(run, instance));
    const int of_sums =
        alone ? 0 : number(sums, std::pair(stacks.of(instance), stacks.joined(instance)));
    for (int rank = 0; rank < run.world_size; ++rank) {
      const std::int64_t data_rank = std::int64_t{instance} * run.world_size + rank;
      RankKind kind{contract_slice({0, full}, run.world_size, rank).numel(),
                    contract_slice({0, rest}, run.world_size, rank).numel(),
                    stack_kind(run, micro_batch_index(run, data_rank)),
                    run.shares_params() && rank == 0, of_moves};
      result.count += kinds.insert(kind).second ? 1 : 0;
      kind.instance = of_sums;
      if (memories.insert(kind).second) result.first.push_back(data_rank);
    }
  }
  return result;
}

}  // namespace zeroproof::verification
