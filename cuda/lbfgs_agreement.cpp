#include "cuda/lbfgs_agreement.hpp"

#include <vector>

#include "common/base/error.hpp"
#include "common/comm/collective_call.hpp"

namespace zeroproof::cuda {

void require_agreement(Communicator& comm, std::uint64_t word, const std::string& what,
                       const std::string& why, const std::string& remedy) {
  std::vector<std::uint64_t> words(static_cast<std::size_t>(comm.world_size()));
  std::vector<Span<std::byte>> receive;
  for (std::uint64_t& w : words) receive.push_back(std::as_writable_bytes(Span<std::uint64_t>(&w, 1)));
  comm.all_gather(std::as_bytes(Span<const std::uint64_t>(&word, 1)), receive);
  std::vector<int> others;
  for (int rank = 0; rank < comm.world_size(); ++rank) {
    if (words[static_cast<std::size_t>(rank)] != words[0]) others.push_back(rank);
  }
  ZP_CHECK(others.empty(), ErrorCode::comm, what + " of " + describe_ranks(others) + " differ from rank 0's",
           why, remedy);
}

}  // namespace zeroproof::cuda
