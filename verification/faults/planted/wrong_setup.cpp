// Wrong settings of a rank.

#include <algorithm>

#include "verification/faults/planted/fault_context.hpp"

namespace zeroproof::verification {

bool set_up_wrongly(std::string_view fault, FaultContext& context) {
  OptimizerSetup& setup = context.setup;
  std::vector<GroupRule>& rules = setup.groups.rules;
  if (fault == "default-differs") {
    setup.hyper.eps *= 100;
  } else if (fault == "shards-of-another-world") {
    const std::int64_t bucket = setup.shards->buckets().front().numel();
    context.shards = std::make_unique<ShardMap>(setup.layout->padded_numel(),
                                                setup.comm->world_size() - 1, bucket);
    setup.shards = context.shards.get();
  } else if (fault == "no-decay-group-decays") {
    for (GroupRule& rule : rules) rule.weight_decay_mult = 1;
  } else if (fault == "one-lr-for-all-groups") {
    for (GroupRule& rule : rules) {
      rule.lr_mult = 1;
      rule.lr.reset();
      rule.min_lr.reset();
    }
  } else if (fault == "group-order-per-rank") {
    if (setup.comm->rank() + 1 != setup.comm->world_size()) return true;
    std::ranges::reverse(rules);
    for (int& group : setup.groups.of_tensor) group = group == 0 ? 0 : setup.groups.count() - group;
  } else {
    return false;
  }
  return true;
}

}  // namespace zeroproof::verification
