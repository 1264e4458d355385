#include "verification/cases/pairwise/empty_rank.hpp"

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "common/base/error.hpp"
#include "common/layout/peer_layouts.hpp"
#include "common/step/param_groups.hpp"
#include "verification/cases/experiment.hpp"
#include "verification/model/byte_gpt_cuts.hpp"

namespace zeroproof::verification {
namespace {

bool leaves_rank_empty(const CoveredRun& run, const ProcessGrid& grid) {
  const workload::ByteGptShape shape = model_shape(run.spec.workload, run.config.model);
  const FlatLayout whole(workload::byte_gpt_params(shape));
  const ParamGroups groups = make_param_groups(run.config.param_groups, run.config.schedule, whole);
  const int ranks = grid.data_ranks() / run.spec.place.instances;
  for (int tp_rank = 0; tp_rank < grid.tp; ++tp_rank) {
    const FlatLayout layout =
        grid.tp == 1 ? whole
                     : FlatLayout(workload::byte_gpt_tp_model(shape, grid.tp, tp_rank).params);
    const ShardMap shards = make_shard_map(run.spec.place.layout, layout, ranks,
                                           run.spec.bucket_numel, groups.of_tensor);
    for (int rank = 0; rank < ranks; ++rank) {
      if (layout.pieces(shards.shard(rank)).empty()) return true;
    }
  }
  return false;
}

}  // namespace

bool has_empty_rank(const CoveredRun& run) {
  using Key = std::pair<std::vector<std::int64_t>, std::vector<std::string>>;
  static std::map<Key, bool> known;
  static std::mutex mutex;
  try {
    const ProcessGrid grid = run.spec.place.grid_of(run.spec.world.size);
    const ModelConfig& m = run.config.model;
    Key key{{m.layers, m.width, m.heads, m.hidden, m.context, grid.tp, grid.data_ranks(),
             run.spec.place.instances, run.spec.bucket_numel,
             static_cast<std::int64_t>(run.spec.place.layout)},
            {run.spec.workload}};
    for (const GroupRule& rule : run.config.param_groups) {
      key.second.insert(key.second.end(), rule.match.begin(), rule.match.end());
      key.second.emplace_back(rule.vectors ? "and vectors" : "");
    }
    const std::lock_guard lock(mutex);
    const auto [found, fresh] = known.try_emplace(std::move(key), false);
    if (fresh) found->second = leaves_rank_empty(run, grid);
    return found->second;
  } catch (const Error&) {
    return false;  // the checks of the run report it
  }
}

}  // namespace zeroproof::verification
