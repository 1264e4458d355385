#pragma once
// Messages between the ranks that share a state. All calls are collective over setup.comm.

#include <vector>

#include "common/step/distributed_optimizer.hpp"
#include "reference/zero/sharded/flat_ranges.hpp"

namespace zeroproof::reference {

/// Sends send[d] to rank d; rank s sends recv_bytes[s] bytes.
std::vector<Message> exchange(Communicator& comm, std::vector<Message> send,
                              const std::vector<std::int64_t>& recv_bytes);

/// The messages of all ranks of a group; rank s has recv_bytes[s] bytes.
std::vector<Message> gather_all(Communicator& group, const Message& mine,
                                const std::vector<std::int64_t>& recv_bytes);

/// Copies the wanted elements to `into` on every rank: each owner sends its part of them. Elements
/// without an owner (padding) keep their bits.
void gather_from_owners(const OptimizerSetup& setup, const RangedView& shard,
                        const FlatRanges& wanted, const RangedView& into);

/// Removes the first `numel` values of a message and returns them.
std::vector<float> take_floats(Span<const std::byte>& rest, std::int64_t numel);

}  // namespace zeroproof::reference
