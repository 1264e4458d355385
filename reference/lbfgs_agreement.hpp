#pragma once

#include <string>

#include "common/base/span.hpp"
#include "common/comm/communicator.hpp"

namespace zeroproof::reference {

/// Collective. Errors: comm, on every rank, naming the ranks whose words differ from those of rank 0.
/// words: as many on every rank. what: "the loss", as the sentence goes on "... of rank 2 differs".
void check_same_on_all_ranks(Communicator& comm, Span<const std::uint64_t> words, const std::string& what,
                             const std::string& why, const std::string& remedy);

}  // namespace zeroproof::reference
