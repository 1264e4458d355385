#pragma once
// A buffer that ranks own parts of, assembled for a library that gets all of it.

#include <vector>

#include "common/base/guarded_buffer.hpp"
#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::verification {

/// Ranges of a rank's state in the setup's stage.
std::vector<FlatRange> kept_ranges(const OptimizerSetup& setup, int rank);

/// The whole buffer, [padded_numel], on every rank, and the elements that this rank owns,
/// contiguously. Both are NaN at first.
class CutBuffer {
 public:
  /// setup outlives this.
  CutBuffer(const OptimizerSetup& setup, BufferId id, DType dtype);

  BufferId id() const { return id_; }
  const GuardedBuffer& whole() const { return whole_; }
  const GuardedBuffer& mine() const { return mine_; }
  ExposedBuffer exposed() const { return {id_, mine_.view(), ranges_}; }

  /// Assembles the whole from the ranks' parts. Collective.
  void gather();
  /// Copies this rank's part from the whole.
  void keep_own();
  void poison_whole() { whole_.poison(); }

 private:
  const OptimizerSetup* setup_;
  BufferId id_;
  std::vector<FlatRange> ranges_;  // of this rank
  GuardedBuffer whole_, mine_;
};

}  // namespace zeroproof::verification
