#pragma once

#include <cstdint>
#include <string>

namespace zeroproof::verification {

/// A message between two ranks that arrived with other bytes than were sent.
struct BrokenMessage {
  std::string group;        ///< of the ranks that made the call: "shards", "instances" or "tp"
  std::string collective;   ///< "all_gather"
  std::int64_t number = 0;  ///< of the call on the communicator of the group, counted from 1
  int from = 0, to = 0;     ///< ranks of the case
  std::int64_t num_bytes = 0;
  std::int64_t differing = 0;  ///< bytes
  std::int64_t first = 0;      ///< the first byte that differs
  int sent = 0, received = 0;  ///< that byte
};

/// "all_gather #3 of shards, from rank 0 to rank 7: byte 0 of 8192 was sent as 0x3f and received as
/// 0x3e; 128 bytes differ".
std::string describe(const BrokenMessage& message);

}  // namespace zeroproof::verification
