#include "verification/compare/judge/rank_groups.hpp"

namespace zeroproof::verification {

RankGroups::RankGroups(const CaseLayout& layout, Communicator& world) : world_(world) {
  if (layout.plain()) return;
  const RankCoords place = layout.place(world.rank());
  const ProcessGrid& grid = layout.grid();
  shard_ = world.split(place.tp_rank * layout.instances() + place.instance);
  if (layout.instances() > 1) {
    replicas_ = world.split(place.tp_rank * layout.shard_ranks() + place.shard_rank);
  }
  if (grid.tp > 1) tp_ = world.split(place.data_rank);
  if (grid.cp > 1) cp_ = world.split(place.data_rank / grid.cp * grid.tp + place.tp_rank);
}

void RankGroups::place(OptimizerSetup& setup) const {
  setup.comm = shard_ ? shard_.get() : &world_;
  setup.replicas = replicas_.get();
  setup.tp = tp_.get();
}

}  // namespace zeroproof::verification
