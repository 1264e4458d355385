#pragma once
// A buffer that ranks own parts of, where a library gets all of it.

#include <vector>

#include "common/base/guarded_buffer.hpp"
#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::verification {

/// What a rank keeps state for, in the setup's stage.
std::vector<FlatRange> kept_ranges(const OptimizerSetup& setup, int rank);

/// The whole buffer, [padded_numel], on every rank, and the elements that this one keeps, one after another. Both are
/// NaN at first.
class CutBuffer {
 public:
  /// setup outlives this.
  CutBuffer(const OptimizerSetup& setup, BufferId id, DType dtype);

  BufferId id() const { return id_; }
  const GuardedBuffer& whole() const { return whole_; }
  const GuardedBuffer& mine() const { return mine_; }
  ExposedBuffer exposed() const { return {id_, mine_.view(), ranges_}; }

  /// The whole is made of what the ranks have. Collective.
  void gather();
  /// This rank's part is made of the whole.
  void keep_own();
  void poison_whole() { whole_.poison(); }

 private:
  const OptimizerSetup* setup_;
  BufferId id_;
  std::vector<FlatRange> ranges_;  // of this rank
  GuardedBuffer whole_, mine_;
};

}  // namespace zeroproof::verification
