#include "common/comm/agreement.hpp"

#include "common/base/error.hpp"
#include "common/comm/collective_call.hpp"

namespace zeroproof {
namespace {

/// Digests of all ranks of a group, in rank order; `mine` may hold those of several ranks already.
std::vector<Digest> gather_all(Communicator& group, const std::vector<Digest>& mine) {
  std::vector<Digest> all(mine.size() * static_cast<std::size_t>(group.world_size()));
  std::vector<Span<std::byte>> receive;
  for (std::size_t at = 0; at < all.size(); at += mine.size()) {
    receive.push_back(std::as_writable_bytes(Span<Digest>(all).subspan(at, mine.size())));
  }
  group.all_gather(std::as_bytes(Span<const Digest>(mine)), receive);
  return all;
}

/// Returns a description of the first value that differs, and on which ranks; "" if none does.
/// Collective.
std::string first_difference(const std::vector<Communicator*>& groups,
                             const std::vector<CommonValue>& mine) {
  std::vector<Digest> all;
  all.reserve(mine.size());
  for (const CommonValue& value : mine) all.push_back(value.digest);
  for (Communicator* const group : groups) {
    if (group != nullptr) all = gather_all(*group, all);
  }
  const int ranks = static_cast<int>(all.size() / mine.size());
  const int first_group = groups.front() == nullptr ? 1 : groups.front()->world_size();
  for (std::size_t i = 0; i < mine.size(); ++i) {
    const auto of = [&](int rank) { return all[static_cast<std::size_t>(rank) * mine.size() + i]; };
    const int owners = mine[i].of_first_group_rank ? first_group : 1;
    for (int owner = 0; owner < owners; ++owner) {
      std::vector<int> different;
      for (int rank = owner; rank < ranks; rank += owners) {
        if (of(rank) != of(owner)) different.push_back(rank);
      }
      if (different.empty()) continue;
      return mine[i].what + " of " + describe_ranks(different) + " differ from those of " +
             describe_rank(owner);
    }
  }
  return "";
}

/// Two digests: of the values that all ranks have in common, and of those that only ranks of the
/// first group share.
std::vector<CommonValue> summary(const std::vector<CommonValue>& values) {
  std::vector<Digest> common, own;
  for (const CommonValue& value : values)
    (value.of_first_group_rank ? own : common).push_back(value.digest);
  const auto digest = [](const std::vector<Digest>& digests) {
    return raw_digest(digests.data(), static_cast<std::int64_t>(digests.size() * sizeof(Digest)));
  };
  return {{"digests", digest(common)}, {"digests", digest(own), true}};
}

}  // namespace

void require_agreement(const std::vector<Communicator*>& groups,
                       const std::vector<CommonValue>& mine, const std::string& why,
                       const std::string& remedy) {
  // Normally nothing differs, and then the values themselves are not compared.
  if (mine.size() > 2 && first_difference(groups, summary(mine)).empty()) return;
  const std::string problem = first_difference(groups, mine);
  ZP_CHECK(problem.empty(), ErrorCode::comm, problem, why, remedy);
}

void require_agreement(const std::vector<Communicator*>& groups, Span<const std::byte> mine,
                       const std::string& what, const std::string& why, const std::string& remedy) {
  const Digest digest = raw_digest(mine.data(), static_cast<std::int64_t>(mine.size()));
  require_agreement(groups, {{what, digest}}, why, remedy);
}

}  // namespace zeroproof
