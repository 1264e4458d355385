// Wrong settings of a rank.

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "verification/faults/planted/fault_context.hpp"

namespace zeroproof::verification {
namespace {

/// One period of the whole matrix: the first part has the first rows, and so on.
void join_periods(MatrixTensor& tensor, const TensorSlot& slot) {
  if (tensor.widths.empty()) return;
  const std::int64_t extent = slot.shape[tensor.by_columns ? 1 : 0];
  const std::int64_t period =
      std::accumulate(tensor.widths.begin(), tensor.widths.end(), std::int64_t{0});
  for (std::int64_t& width : tensor.widths) width *= extent / period;
}

}  // namespace

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
  } else if (fault == "muon-parts-not-split") {
    for (MatrixTensor& tensor : setup.matrix_tensors) tensor.widths.clear();
  } else if (fault == "muon-parts-contiguous") {
    for (std::size_t t = 0; t < setup.matrix_tensors.size(); ++t)
      join_periods(setup.matrix_tensors[t], setup.layout->tensors()[t]);
  } else if (fault == "muon-parts-of-rows") {
    for (MatrixTensor& tensor : setup.matrix_tensors) tensor.by_columns = false;
  } else if (fault == "muon-embedding-orthogonalised") {
    setup.matrix_tensors.front() = {true, false, {}};
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
