#include "reference/same_scalars.hpp"

#include <algorithm>
#include <string>

#include "common/base/error.hpp"
#include "reference/ranks.hpp"

namespace zeroproof::reference {
namespace {

using Bytes = std::vector<std::byte>;

/// What every rank of a group has, in rank order; all ranks have the same number of bytes.
Bytes gathered(Communicator* group, const Bytes& mine) {
  if (group == nullptr) return mine;
  Bytes all(mine.size() * static_cast<std::size_t>(group->world_size()));
  std::vector<Span<std::byte>> parts;
  for (int rank = 0; rank < group->world_size(); ++rank) {
    parts.push_back(Span<std::byte>(all).subspan(static_cast<std::size_t>(rank) * mine.size(), mine.size()));
  }
  group->all_gather(mine, parts);
  return all;
}

/// The scalars of all ranks, [tp][instances][ranks of an instance]: every rank holds the same.
struct AllScalars {
  Bytes bytes;
  std::size_t bytes_each;
  int instances;
  int ranks;

  bool same(int tp, int instance, int rank, int other_tp, int other_instance, int other_rank) const {
    return std::ranges::equal(of(tp, instance, rank), of(other_tp, other_instance, other_rank));
  }
  Span<const std::byte> of(int tp, int instance, int rank) const {
    const int index = (tp * instances + instance) * ranks + rank;
    return Span<const std::byte>(bytes).subspan(static_cast<std::size_t>(index) * bytes_each, bytes_each);
  }
};

/// The group in which a rank stands apart, smallest group first; "" if its scalars are those of the very first rank.
std::string name_of_difference(const AllScalars& all, int tp, int instance, int rank) {
  if (!all.same(tp, instance, rank, tp, instance, 0)) return "rank " + std::to_string(rank);
  if (!all.same(tp, instance, 0, tp, 0, 0)) return "instance " + std::to_string(instance);
  if (!all.same(tp, 0, 0, 0, 0, 0)) return "TP rank " + std::to_string(tp);
  return "";
}

}  // namespace

void require_same_scalars(const OptimizerSetup& setup, const std::vector<StepScalars>& scalars) {
  const Span<const std::byte> words = std::as_bytes(Span<const StepScalars>(scalars));
  const Bytes mine(words.begin(), words.end());
  const AllScalars all{gathered(setup.tp, gathered(setup.replicas, gathered(setup.comm, mine))), mine.size(),
                       size_of(setup.replicas), size_of(setup.comm)};

  std::vector<std::string> names;
  for (int tp = 0; tp < tp_size(setup); ++tp) {
    for (int instance = 0; instance < all.instances; ++instance) {
      for (int rank = 0; rank < all.ranks; ++rank) {
        const std::string name = name_of_difference(all, tp, instance, rank);
        if (!name.empty() && std::ranges::find(names, name) == names.end()) names.push_back(name);
      }
    }
  }
  if (names.empty()) return;
  std::string list = names[0];
  for (std::size_t i = 1; i < names.size(); ++i) list += ", " + names[i];
  fail(ErrorCode::comm, "the step scalars of " + list + " differ from those of rank 0",
       "every rank must apply the same step (R5)",
       "give all ranks the same hyper-parameters, groups, loss scale and step counts");
}

}  // namespace zeroproof::reference
