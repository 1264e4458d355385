#pragma once
// Control messages between ranks (internal to the MPI communicator).

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/span.hpp"
#include "common/comm/collective_call.hpp"

namespace zeroproof {

struct MpiMessage {
  enum class Kind : std::uint8_t {
    call,     ///< the sender's next collective
    waiting,  ///< the sender is stuck in a collective, of the world or a group: others are the cause
    resumed,  ///< the sender is no longer stuck there
    left,     ///< the sender destroyed its communicator without error: no more calls
    failure,  ///< the sender cannot go on; the text is the Error that every rank throws
  };
  Kind kind = Kind::call;
  CollectiveCall call;  ///< of a failure: its sequence is the last call that the sender completed
  std::int64_t channel = 0;  ///< of a failure: where that call was, MpiTransport::channel()
  ErrorCode code = ErrorCode::comm;
  std::string text;
};

/// Bytes that hold any message between world_size ranks. Longer texts are truncated.
std::size_t max_encoded_bytes(int world_size);

std::vector<std::byte> encode(const MpiMessage& message, int world_size);

/// Throws Error(ErrorCode::comm) unless the bytes come from encode() of the same program.
MpiMessage decode(Span<const std::byte> data, int world_size);

}  // namespace zeroproof
