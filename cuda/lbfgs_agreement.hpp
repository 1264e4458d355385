#pragma once
// What all ranks of an L-BFGS run must have in common.

#include <cstdint>
#include <string>

#include "common/comm/communicator.hpp"

namespace zeroproof::cuda {

/// Compares a word over the ranks. Errors: comm, the same on every rank, naming those that differ from rank 0.
/// what: "the settings of L-BFGS"; why and remedy complete the sentence.
void require_agreement(Communicator& comm, std::uint64_t word, const std::string& what,
                       const std::string& why, const std::string& remedy);

}  // namespace zeroproof::cuda
