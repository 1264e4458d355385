#pragma once
// What the leaves of a run do to stacks of nodes (R11): counted once for all ranks of an instance.

#include <compare>
#include <cstdint>
#include <vector>

#include "verification/predict/predicted_step.hpp"

namespace zeroproof {

/// Leaf numbers of the tree (R11, u = j * cp + c) that a data rank supplies: first, first + step and so on.
struct LeafNumbers {
  std::int64_t first = 0;
  std::int64_t step = 1;
  std::int64_t count = 0;

  std::int64_t at(std::int64_t i) const { return first + i * step; }
};
LeafNumbers leaf_numbers(const PredictedStep& shape, std::int64_t data_rank);

/// The stack of R11, without values.
class NodeCount {
 public:
  /// Pushes a leaf. Returns how many entries are combined with it, one after another.
  std::int64_t push(std::int64_t leaf);
  std::int64_t size() const { return static_cast<std::int64_t>(stack_.size()); }

 private:
  struct Node {
    int level;
    std::int64_t index;
  };
  std::vector<Node> stack_;
};

/// Nodes left on a stack when only these leaves were pushed on it.
std::int64_t nodes_left(const LeafNumbers& leaves);

/// Nodes left when one instance has pushed all its leaves, in increasing order.
std::int64_t instance_nodes(const PredictedStep& shape, int instance);

/// What one micro-step does to the stacks of a bucket: the same for all buckets.
struct StackMove {
  bool here = false;         ///< this rank has a leaf
  std::int64_t senders = 0;  ///< other ranks that have one
  std::int64_t before = 0;   ///< entries at the start
  std::int64_t most = 0;     ///< entries at most in between
  std::int64_t after = 0;    ///< entries at the end

  auto operator<=>(const StackMove&) const = default;
};

/// The ranks of one instance together.
struct InstanceStacks {
  std::int64_t leaves = 0;
  std::int64_t left = 0;         ///< entries left on the ranks' own stacks
  std::int64_t holders = 0;      ///< ranks with such an entry
  std::vector<StackMove> moves;  ///< [micro_steps] of leaves that do not stay, seen by a rank without any

  auto operator<=>(const InstanceStacks&) const = default;
};

/// The instances of one run. shape must outlive it and may become that of another rank in between.
class LeafStacks {
 public:
  explicit LeafStacks(const PredictedStep& shape);

  /// Counted when it is first asked for, and kept until another instance is.
  const InstanceStacks& of(int instance);

  /// Nodes left when all leaves of an instance are on one stack, and the same added over all instances.
  std::int64_t joined(int instance) const { return joined_[static_cast<std::size_t>(instance)]; }
  std::int64_t told() const { return told_; }

 private:
  void count_moves(int instance);

  const PredictedStep& shape_;
  std::vector<std::int64_t> joined_;  // [instances]
  std::int64_t told_ = 0;
  int counted_ = -1;
  InstanceStacks stacks_;  // of instance counted_
};

/// The micro-steps of a rank that keeps its leaves, on its own stack.
std::vector<StackMove> own_moves(const PredictedStep& shape);

}  // namespace zeroproof
