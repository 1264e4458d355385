#pragma once
// Values that must be equal on all ranks, compared before any rank uses them.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/digest.hpp"
#include "common/base/span.hpp"
#include "common/comm/communicator.hpp"

namespace zeroproof {

/// A value that ranks have in common.
struct CommonValue {
  std::string
      what;  ///< in the plural: "the losses of an evaluation", of which those of some ranks differ
  Digest digest;
  bool of_first_group_rank =
      false;  ///< ranks with other numbers in the first group may have other values
};

/// Compares values over the ranks of all groups together; groups that form a grid make all of its ranks comparable.
/// Every rank sends 16 bytes for each rank whose values it holds, with more than one value 32, and only where these differ 16
/// of each value. Collective over one group after the other.
///
/// groups   null: a group of one rank. Ranks are numbered with those of the first group running fastest.
/// mine     the same values in the same order on every rank
/// Errors   comm, with the same text on every rank, naming the first value that differs, and the ranks on which it does
///          from that of rank 0 (or of the first rank that has it in common with them).
void require_agreement(const std::vector<Communicator*>& groups,
                       const std::vector<CommonValue>& mine, const std::string& why,
                       const std::string& remedy);

/// The same for the bytes of one value.
void require_agreement(const std::vector<Communicator*>& groups, Span<const std::byte> mine,
                       const std::string& what, const std::string& why, const std::string& remedy);

/// The same for one word.
inline void require_agreement(Communicator& comm, std::uint64_t word, const std::string& what,
                              const std::string& why, const std::string& remedy) {
  require_agreement({&comm}, std::as_bytes(Span<const std::uint64_t>(&word, 1)), what, why, remedy);
}

}  // namespace zeroproof
