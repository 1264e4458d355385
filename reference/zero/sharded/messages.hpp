#pragma once
// Bytes between the ranks that share a state. All calls are collective over setup.comm.

#include <vector>

#include "common/step/distributed_optimizer.hpp"
#include "reference/zero/sharded/flat_ranges.hpp"

namespace zeroproof::reference {

/// Sends send[d] to rank d; rank s sends recv_bytes[s] bytes.
std::vector<Message> exchange(Communicator& comm, std::vector<Message> send,
                              const std::vector<std::int64_t>& recv_bytes);

/// What every rank of a group has; rank s has recv_bytes[s] bytes.
std::vector<Message> gather_all(Communicator& group, const Message& mine,
                                const std::vector<std::int64_t>& recv_bytes);

/// The wanted elements arrive in `into` on every rank: each owner sends what it owns of them. Elements nobody owns
/// (padding) keep their bits.
void gather_from_owners(const OptimizerSetup& setup, const RangedView& shard,
                        const FlatRanges& wanted, const RangedView& into);

/// Cuts the next `numel` values off the front of a message.
std::vector<float> take_floats(Span<const std::byte>& rest, std::int64_t numel);

}  // namespace zeroproof::reference
