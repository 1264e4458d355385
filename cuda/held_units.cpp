#include <algorithm>

#include "cuda/bucket_sum.hpp"
#include "cuda/faults/fault.hpp"
#include "cuda/micro_batches.hpp"

namespace zeroproof::cuda {
namespace {

std::vector<std::int64_t> units_of(const OptimizerSetup& setup, int data_rank) {
  std::vector<std::int64_t> units = micro_batches_of(setup, data_rank);
  const int part = data_rank % setup.cp;
  for (std::int64_t& unit : units) {
    const bool parts_last = ZP_FAULT(setup.exec, "cp-parts-folded-last");
    unit = parts_last ? part * setup.micro_batches + unit : unit * setup.cp + part;
  }
  return units;
}

/// What a stack holds after these leaves, in increasing order.
std::vector<TreeNode> nodes_left(const std::vector<std::int64_t>& units) {
  struct Nothing {};
  host::NodeStack<Nothing> stack([](Nothing&, Nothing&) {});
  for (const std::int64_t unit : units) stack.push({0, unit}, {});
  std::vector<TreeNode> nodes;
  for (const auto& entry : stack.entries()) nodes.push_back(entry.node);
  return nodes;
}

}  // namespace

HeldUnits::HeldUnits(const OptimizerSetup& setup) {
  for (int of_instance = 0; of_instance < instances(setup); ++of_instance) {
    std::vector<std::int64_t> all;
    for (int rank = 0; rank < setup.comm->world_size(); ++rank) {
      const std::vector<std::int64_t> units = units_of(setup, data_rank(setup, of_instance, rank));
      all.insert(all.end(), units.begin(), units.end());
      if (of_instance != instance(setup)) continue;
      nodes_.push_back(nodes_left(units));
      units_.push_back(units);
    }
    std::ranges::sort(all);
    instance_nodes_.push_back(nodes_left(all));
  }
}

std::int64_t HeldUnits::unit(int rank, std::int64_t micro_step) const {
  const std::vector<std::int64_t>& units = units_[static_cast<std::size_t>(rank)];
  return micro_step >= 0 && micro_step < static_cast<std::int64_t>(units.size())
             ? units[static_cast<std::size_t>(micro_step)]
             : -1;
}

}  // namespace zeroproof::cuda
