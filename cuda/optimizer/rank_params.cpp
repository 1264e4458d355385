#include "cuda/optimizer/rank_params.hpp"

#include <utility>

namespace zeroproof::cuda {

RankParams::RankParams(const RankLayout& of, RankMemory& memory)
    : layout(of),
      store(of.setup, of.ranges, memory.near.get(), memory.ledger),
      gather(of.setup, of.plans, memory.messages, store, memory.near.get(), *of.comm_groups.comm),
      scales(of.setup, ParamScales::Of::params, of.ranges, memory.ledger),
      columns(of, memory, gather.full_ranges()) {}

void RankParams::gather_all() {
  gather.gather_all();
  columns.rebuild(layout.setup.exec, gather.full());
}

std::vector<ExposedBuffer> RankParams::exposed_cast() {
  store.show();
  std::vector<ExposedBuffer> buffers = scales.exposed();
  buffers.push_back({BufferId::param_shard, store.shard(), layout.ranges});
  for (ExposedBuffer& buffer : columns.exposed()) buffers.push_back(std::move(buffer));
  return buffers;
}

std::vector<ExposedBuffer> RankParams::exposed_gather() const {
  if (layout.setup.stage == 3 && gather.full_ranges().empty()) return {};
  std::vector<ExposedBuffer> buffers = {
      {BufferId::param_full, gather.full(), gather.full_ranges(), store.one_copy()}};
  if (columns) {
    buffers.push_back(
        {BufferId::param_columns, columns.view(), gather.full_ranges(), columns.one_copy()});
  }
  return buffers;
}

void RankParams::take_shown() {
  store.take_shown();
  if (ParamStore* const of_columns = columns.store()) of_columns->take_shown();
}

std::string RankParams::damaged_guard() const {
  if (!gather.full_buffer().guards_intact()) return "param_full";
  if (!store.guards_intact()) return "param_shard";
  if (const std::string_view name = columns.damaged_guard(); !name.empty())
    return std::string(name);
  return std::string(scales.damaged_guard());
}

}  // namespace zeroproof::cuda
