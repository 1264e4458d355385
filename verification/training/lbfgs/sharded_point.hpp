#pragma once
// Gathers a vector that is sharded over ranks.

#include <cstddef>
#include <vector>

#include "common/contracts/lbfgs.hpp"

namespace zeroproof::verification {

/// The pieces owned by this rank, tensor by tensor.
std::vector<Piece> own_pieces(const LbfgsSetup& place);

/// The whole vector, on every rank. Collective.
///
/// Shapes   shard: [shard_numel], padding included. Returns [padded_numel]; padding is NaN.
std::vector<float> gathered(const LbfgsSetup& place, Span<const float> shard);

/// The items of all ranks one after another, on every rank. Collective. numels: [world_size].
template <class T>
std::vector<T> gathered(Communicator& comm, const std::vector<T>& mine,
                        const std::vector<std::size_t>& numels) {
  std::size_t total = 0;
  for (const std::size_t numel : numels) total += numel;
  std::vector<T> all(total);
  std::vector<Span<std::byte>> receive;
  std::size_t begin = 0;
  for (const std::size_t numel : numels) {
    receive.push_back(std::as_writable_bytes(Span<T>(all).subspan(begin, numel)));
    begin += numel;
  }
  comm.all_gather(std::as_bytes(Span<const T>(mine)), receive);
  return all;
}

}  // namespace zeroproof::verification
