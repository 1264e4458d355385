#include "verification/training/lbfgs/sharded_point.hpp"

#include <algorithm>
#include <limits>

namespace zeroproof::verification {

std::vector<Piece> own_pieces(const LbfgsSetup& place) {
  return place.layout->pieces(place.shards->shard(place.comm->rank()));
}

std::vector<float> gathered(const LbfgsSetup& place, Span<const float> shard) {
  const int world = place.comm->world_size();
  std::vector<std::size_t> numels;
  for (int rank = 0; rank < world; ++rank) {
    numels.push_back(static_cast<std::size_t>(place.shards->shard_numel(rank)));
  }
  const std::vector<float> all =
      gathered<float>(*place.comm, std::vector<float>(shard.begin(), shard.end()), numels);
  std::vector<float> whole(place.layout->padded_numel(), std::numeric_limits<float>::quiet_NaN());
  auto begin = all.begin();
  for (int rank = 0; rank < world; ++rank) {
    for (const Piece& piece : place.layout->pieces(place.shards->shard(rank))) {
      std::copy_n(begin + piece.local_begin, piece.numel, whole.begin() + piece.global_begin);
    }
    begin += place.shards->shard_numel(rank);
  }
  return whole;
}

}  // namespace zeroproof::verification
