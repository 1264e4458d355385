#pragma once
// The elements of whole matrices (R28) from the shards of the ranks into one memory, and back.

#include <vector>

#include "cuda/comm/exchange/comm_groups.hpp"
#include "cuda/comm/exchange/packed_exchange.hpp"
#include "cuda/optimizer/matrices/matrix_exchange.hpp"
#include "cuda/optimizer/state/local_step.hpp"

namespace zeroproof::cuda {

/// The elements of runs, in order. begin: local_begin or place, whichever counts in the memory.
Stretches stretches_of(const std::vector<MatrixRun>& runs, std::int64_t MatrixRun::*begin,
                       float* memory);

/// Executes the exchange of a rank in the space of its buffers.
class MatrixMoves {
 public:
  /// comm_groups: communicators in that space. The shard, which has matrices, and they outlive
  /// this. rest_numel: elements of memory behind the largest batch, for the caller.
  MatrixMoves(const RankShard& shard, const CommGroups& comm_groups, std::int64_t rest_numel = 0);

  /// Elements of the updated matrices of a batch: from the buffers of the shards into whole
  /// matrices on the ranks that gather them. Returns their memory, [most_numel + rest_numel], which
  /// is valid until the next batch is gathered. Collective over comm (from stage 1 on) and tp.
  float* gather(const MatrixBatch& batch, const MatrixExchange::Updated& updated);
  /// The way back of the batch that was gathered last. Collective over comm, if the exchange
  /// returns elements.
  void scatter();

  /// Whether other ranks take part in any batch.
  bool joins() const;

 private:
  void exchange(const std::vector<Stretches>& send, const std::vector<Stretches>& receive);
  void complete_over_tp(const MatrixBatch& batch, const MatrixExchange::Updated& updated,
                        float* whole);

  const OptimizerSetup& setup_;
  const MatrixExchange& plan_;
  CountedBuffer& orthogonal_;
  GradMemory& memory_;
  const CommGroups comm_groups_;
  const std::int64_t numel_;  // of the memory
  const MatrixMessageBytes most_bytes_;
  bool moves_ = false;                  // over comm, in the batch that was gathered last
  std::vector<Stretches> away_, here_;  // its MatrixMessages in memory, [ranks]
  std::vector<Move> own_to_shard_;
};

}  // namespace zeroproof::cuda
