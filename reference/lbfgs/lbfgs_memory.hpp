#pragma once
// Curvature information of L-BFGS: the last pairs of moves and gradient changes, and the recursion
// over them (R21).

#include <deque>

#include "reference/lbfgs/lbfgs_vectors.hpp"

namespace zeroproof::reference {

/// One accepted move s and the change y of the gradient along it.
struct LbfgsPair {
  ShardVector s, y;
  double rho = 0;  // 1 / (y . s)
};

class LbfgsMemory {
 public:
  LbfgsMemory() = default;
  LbfgsMemory(std::int64_t history_size, std::deque<LbfgsPair> pairs, double h)
      : history_size_(history_size), pairs_(std::move(pairs)), h_(h) {}

  const std::deque<LbfgsPair>& pairs() const { return pairs_; }
  double h() const { return h_; }

  /// Removes every pair.
  void drop();

  /// Stores the pair if its curvature is positive; returns false if it was skipped.
  bool remember(const ShardVectors& vectors, ShardVector s, ShardVector y);

  /// -H g by the two-loop recursion [LBFGS:recursion].
  ShardVector direction(const ShardVectors& vectors, const ShardVector& g) const;

 private:
  std::int64_t history_size_ = 1;
  std::deque<LbfgsPair> pairs_;  // oldest first
  double h_ = 1;
};

}  // namespace zeroproof::reference
