#pragma once
// Effect of a run's leaves on stacks of nodes (R11), counted once for all ranks of an instance.

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "verification/tools/plan/predict/predicted_step.hpp"

namespace zeroproof {

/// Messages by the bytes of an element in them: by half of that number, modulo 8. Messages of one
/// class have the same distance to the next multiple of 16 bytes.
using ByUnits = std::array<std::int64_t, 8>;
inline std::size_t units_of(std::int64_t element_bytes) {
  return static_cast<std::size_t>(element_bytes / 2 % 8);
}

/// Leaf numbers of the tree (R11, u = j * cp + c) that a data rank supplies: first, first + step
/// and so on.
struct MicroBatchIndex {
  std::int64_t first = 0;
  std::int64_t step = 1;
  std::int64_t count = 0;

  std::int64_t at(std::int64_t i) const { return first + i * step; }
};
MicroBatchIndex micro_batch_index(const PredictedStep& shape, std::int64_t data_rank);

/// The stack of R11, without values.
class NodeCount {
 public:
  /// Pushes a leaf. Returns how many entries are combined with it, one after another.
  std::int64_t push(std::int64_t leaf);
  std::int64_t size() const { return static_cast<std::int64_t>(stack_.size()); }
  std::int64_t leaves() const;  ///< of those: leaves, to which nothing was added

 private:
  struct Node {
    int level;
    std::int64_t index;
  };
  std::vector<Node> stack_;
};

/// Nodes left on a stack when only these leaves were pushed on it.
std::int64_t nodes_left(const MicroBatchIndex& leaves);

/// How many of those are leaves, to which nothing was added.
std::int64_t leaves_left(const MicroBatchIndex& leaves);

/// Nodes left when one instance has pushed all its leaves, in increasing order.
struct JoinedNodes {
  std::int64_t nodes = 0;
  std::int64_t leaves = 0;  ///< of those
  auto operator<=>(const JoinedNodes&) const = default;
};
JoinedNodes instance_nodes(const PredictedStep& shape, int instance);

/// Most nodes on a stack on which only these leaves are pushed, between two of them.
std::int64_t most_nodes(const MicroBatchIndex& leaves);

/// The leaves of the shape's rank.
MicroBatchIndex own_micro_batch_index(const PredictedStep& shape);

/// The ranks of one instance together.
struct InstanceStacks {
  std::int64_t leaves = 0;
  std::int64_t left = 0;         ///< entries left on the ranks' own stacks
  std::int64_t holders = 0;      ///< ranks with such an entry
  std::int64_t left_leaves = 0;  ///< entries that are leaves
  ByUnits holders_by_units{};    ///< ranks by the bytes of an element in their message
  /// For leaves that are not kept: entries on the stacks of an owner, each counted with its maximum
  /// between two micro-steps.
  std::int64_t most_nodes = 0;

  auto operator<=>(const InstanceStacks&) const = default;
};

/// The instances of one run. shape must outlive it and may become that of another rank in between.
class LeafStacks {
 public:
  explicit LeafStacks(const PredictedStep& shape);

  /// Counted at the first call, and kept until another instance is requested.
  const InstanceStacks& of(int instance);

  /// Nodes left when all leaves of an instance are on one stack, and the same added over all
  /// instances.
  const JoinedNodes& joined(int instance) const { return joined_[instance]; }
  const JoinedNodes& joined_total() const { return joined_total_; }
  /// Instances by the bytes of an element in their message.
  const ByUnits& instances_by_units() const { return instances_by_units_; }

 private:
  void count_most(int instance);

  const PredictedStep& shape_;
  std::vector<JoinedNodes> joined_;  // [instances]
  JoinedNodes joined_total_;
  ByUnits instances_by_units_{};
  int counted_ = -1;
  InstanceStacks stacks_;  // of instance counted_
};

}  // namespace zeroproof
