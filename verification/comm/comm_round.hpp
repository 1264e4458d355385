#pragma once
// One call of a collective by every rank: the memory of a rank before the call, and after it by the
// definition of the collective.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/dtype.hpp"
#include "verification/comm/comm_case.hpp"

namespace zeroproof::verification {

using CommBytes = std::vector<std::byte>;

/// A block that a rank passes to the call, with its bytes before and after.
struct CommBlock {
  std::string name;  ///< "recv[2]"
  CommBytes before, after;
};

struct CommRound {
  std::int64_t number = 0;  ///< from 0; determines all data, with the seed
  DType dtype = DType::fp32;
  std::int64_t numel = 0;  ///< of the shortest part that is not empty
  int ranks = 1;
  std::uint64_t seed = 0;

  int root() const { return static_cast<int>(number % ranks); }
};

/// Every element type with short, odd and long parts; integers and floats alone where ranks add.
std::vector<CommRound> rounds_of(CommOp op, int ranks, std::uint64_t seed);

/// Elements of the part from a rank to another one. `to` is 0 for parts that go to all, and `from`
/// for parts of one length.
std::int64_t part_numel(const CommRound& round, CommParts parts, int from, int to);

/// The group of a rank in split: ranks with the same parity.
std::vector<int> group_of(int rank, int ranks);

/// The blocks of a rank in the order of the call's arguments: those that it sends, then those that
/// it receives.
std::vector<CommBlock> blocks_of(const CommCaseSpec& spec, const CommRound& round, int rank);

/// Bytes that no call writes, as many as there are in `like`.
CommBytes poison(const CommBytes& like);

/// The bytes of a rank's block of a shared window.
CommBytes window_block(const CommRound& round, CommParts parts, int rank);

}  // namespace zeroproof::verification
