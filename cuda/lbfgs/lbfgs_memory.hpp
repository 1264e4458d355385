#pragma once
// L-BFGS state between steps: the shards of one rank of the vectors in LbfgsState.

#include <deque>
#include <vector>

#include "common/base/guarded_buffer.hpp"
#include "common/contracts/lbfgs.hpp"
#include "cuda/lbfgs/lbfgs_vectors.hpp"

namespace zeroproof::cuda {

/// A move, the change of the gradient over it, and 1 / (their dot product).
struct Pair {
  GuardedBuffer s, y;
  double rho;
};

/// Starts with steepest descent: no pairs, h = 1.
struct LbfgsMemory {
  explicit LbfgsMemory(const LbfgsVectors& vectors)
      : master(vectors.make()), grad_before(vectors.make()), move(vectors.make()) {}

  /// Copies this rank's part of a valid state; `pieces` locate its shard in the whole vectors.
  void load(const LbfgsState& full, const std::vector<Piece>& pieces, const LbfgsVectors& vectors);
  /// Views of the shards, valid until the next step.
  LbfgsState state() const;
  /// Resets to steepest descent; the point and the counts stay.
  void forget() {
    pairs.clear();
    pending = started = false;
    h = 1;
  }

  GuardedBuffer master;             ///< x
  GuardedBuffer grad_before, move;  ///< of the last move, if one is pending
  std::deque<Pair> pairs;           ///< oldest first
  double h = 1;                     ///< the first matrix of the recursion is h times the identity
  bool pending = false;             ///< a move was made whose pair is not stored yet
  bool started = false;
  std::int64_t iterations = 0, evaluations = 0;
};

}  // namespace zeroproof::cuda
