#include "cuda/reduce/reduction_schedule.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "cuda/host/gradients/tree_stack.hpp"

namespace zeroproof::cuda {
namespace {

/// Origin of a node on a stack: one existing slot, or operands still to be added.
struct Parts {
  std::vector<TreeNode> nodes;
  std::vector<NodeSource> sources;
};

using Stack = host::TreeStack<Parts>;

Stack empty_stack() {
  return Stack([](Parts& below, Parts& top) {
    below.nodes.insert(below.nodes.end(), top.nodes.begin(), top.nodes.end());
    below.sources.insert(below.sources.end(), top.sources.begin(), top.sources.end());
  });
}

bool is_slot(const Parts& parts) {
  return parts.sources.size() == 1 && !parts.sources.front().leaf;
}

}  // namespace

ReductionSchedule ReductionSchedule::tree(const Steps& steps, LastLeaves last) {
  ReductionSchedule moves;
  std::map<int, Stack> stacks;
  std::map<std::pair<int, std::size_t>, std::size_t> slot_of;  // by stack and position on it
  for (std::size_t step = 0; step < steps.size(); ++step) {
    for (std::size_t i = 0; i < steps[step].size(); ++i) {
      const ArrivingLeaf& leaf = steps[step][i];
      Stack& stack = stacks.try_emplace(leaf.stack, empty_stack()).first->second;
      stack.push({0, leaf.number}, {{{0, leaf.number}}, {{true, i}}});
    }
    std::vector<NodeMove>& here = moves.moves_.emplace_back();
    if (step + 1 == steps.size() && last == LastLeaves::stay) break;
    for (auto& [key, stack] : stacks) {
      for (std::size_t place = 0; place < stack.entries().size(); ++place) {
        Stack::Entry& entry = stack.entries()[place];
        if (is_slot(entry.values)) continue;
        const std::size_t slot = slot_of.try_emplace({key, place}, slot_of.size()).first->second;
        here.push_back(
            {slot, host::FoldPlan(entry.values.nodes), std::move(entry.values.sources), false});
        entry.values = {{entry.node}, {{false, slot}}};
      }
    }
  }
  moves.slots_ = slot_of.size();
  for (auto& [key, stack] : stacks) {
    for (const Stack::Entry& entry : stack.entries()) {
      for (std::size_t i = 0; i < entry.values.nodes.size(); ++i) {
        const TreeNode& node = entry.values.nodes[i];
        moves.left_.push_back({node, entry.values.sources[i], node.level == 0});
      }
    }
  }
  std::ranges::sort(moves.left_, {},
                    [](const Left& left) { return left.node.first_micro_batch(); });
  moves.mark_leaves_that_stay();
  return moves;
}

/// The final content of a slot is the last node written to it.
void ReductionSchedule::mark_leaves_that_stay() {
  for (const Left& left : left_) {
    if (!left.is_leaf || left.source.leaf) continue;
    NodeMove* last = nullptr;
    for (std::vector<NodeMove>& step : moves_) {
      for (NodeMove& move : step) {
        if (move.slot == left.source.index) last = &move;
      }
    }
    last->stays = true;
  }
}

ReductionSchedule ReductionSchedule::accumulate(const Steps& steps, LastLeaves last) {
  ReductionSchedule moves;
  for (const std::vector<ArrivingLeaf>& leaves : steps) {
    std::vector<NodeMove>& here = moves.moves_.emplace_back();
    const bool stay = moves.moves_.size() == steps.size() && last == LastLeaves::stay;
    if (stay && moves.slots_ > 0) moves.left_.push_back({{}, {false, 0}, false});
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      if (stay) {
        moves.left_.push_back({{0, leaves[i].number}, {true, i}, true});
        continue;
      }
      std::vector<NodeSource> operands;
      if (moves.slots_ > 0) operands.push_back({false, 0});
      operands.push_back({true, i});
      moves.slots_ = 1;
      here.push_back({0, host::FoldPlan::one_after_another(operands.size()), operands, false});
    }
  }
  if (moves.left_.empty() && moves.slots_ > 0) moves.left_.push_back({{}, {false, 0}, false});
  return moves;
}

}  // namespace zeroproof::cuda
