#include "reference/lbfgs_agreement.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/error.hpp"

namespace zeroproof::reference {

void check_same_on_all_ranks(Communicator& comm, Span<const std::uint64_t> words, const std::string& what,
                             const std::string& why, const std::string& remedy) {
  std::vector<std::vector<std::uint64_t>> of_rank(static_cast<std::size_t>(comm.world_size()),
                                                  std::vector<std::uint64_t>(words.size()));
  std::vector<Span<std::byte>> recv;
  for (std::vector<std::uint64_t>& values : of_rank) {
    recv.push_back(std::as_writable_bytes(Span<std::uint64_t>(values)));
  }
  comm.all_gather(std::as_bytes(words), recv);

  std::string ranks;
  for (std::size_t rank = 1; rank < of_rank.size(); ++rank) {
    if (of_rank[rank] != of_rank[0]) ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
  }
  ZP_CHECK(ranks.empty(), ErrorCode::comm, what + " on rank " + ranks + " differs from that on rank 0", why,
           remedy);
}

}  // namespace zeroproof::reference
