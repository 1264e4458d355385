#include "verification/tools/plan/owners.hpp"

#include "common/base/error.hpp"

namespace zeroproof::verification {

Owners make_owners(const PlannedModel& model, const OwnersSettings& settings) {
  ZP_CHECK(!settings.rank || *settings.rank < settings.world_size, ErrorCode::config,
           "rank " + std::to_string(settings.rank.value_or(0)) + " does not exist",
           std::to_string(settings.world_size) + " ranks share the state", "count from 0");
  Owners owners{settings, model.source, FlatLayout(tp_shapes(model, settings.tp)), {}};
  const int first = settings.rank.value_or(0);
  const int last = settings.rank.value_or(settings.world_size - 1);
  for (int rank = first; rank <= last; ++rank) {
    RankOwns owns{rank, 0, 0, {}};
    owns.slices = peer_slices(settings.layout, owners.layout, settings.world_size,
                              settings.bucket_numel, rank, settings.group_of);
    for (const PeerSlice& slice : owns.slices) {
      owns.numel += slice.numel;
      owns.padding += slice.buffer_end - slice.buffer_begin - slice.numel;
    }
    owners.ranks.push_back(std::move(owns));
  }
  return owners;
}

}  // namespace zeroproof::verification
