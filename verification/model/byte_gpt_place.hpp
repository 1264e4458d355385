#pragma once
// Several ranks that compute one micro-batch together: who has which positions, and how rows travel (R18).
//
// Rank (c, t) of cp * tp has the position blocks [(c * tp + t) * 8 / (cp * tp), ...): its own rows of the
// residual stream. The TP group of CP rank c has the rows of c together; its ranks cut heads and hidden width
// at block boundaries. Messages are bytes; received partial folds are added here, by the tree.

#include <cstdint>

#include "common/comm/communicator.hpp"
#include "verification/model/blocked_sum.hpp"
#include "verification/model/byte_gpt.hpp"
#include "verification/model/matmul.hpp"

namespace zeroproof::workload {

/// The groups of one rank. Null is a group of one. They must outlive whatever was made with them.
struct ByteGptGroups {
  Communicator* tp = nullptr;
  Communicator* cp = nullptr;
};

/// Errors: invalid_argument if a size is not 1, 2, 4 or 8, their product is above 8, or tp_size does not
/// divide the heads; also if embeddings are tied and there is more than one rank.
void check_sizes(const ByteGptShape& shape, int tp_size, int cp_size);

/// A rank's place in its groups.
struct ByteGptPlace {
  ByteGptPlace() = default;
  /// Errors as check_sizes.
  ByteGptPlace(const ByteGptShape& shape, const ByteGptGroups& groups);

  /// Of `positions`, those of the TP group.
  BlockRange group_rows(std::int64_t positions) const {
    return BlockRange{positions}.part(cp_rank, cp_size);
  }
  /// Of `positions`, this rank's own.
  BlockRange own_rows(std::int64_t positions) const {
    return group_rows(positions).part(tp_rank, tp_size);
  }
  /// Of `extent` heads' columns or hidden units, those that this rank computes.
  BlockRange slice(std::int64_t extent) const { return BlockRange{extent}.part(tp_rank, tp_size); }

  ByteGptGroups groups;
  int tp_size = 1;
  int tp_rank = 0;
  int cp_size = 1;
  int cp_rank = 0;
};

/// Rank s of `group` has the rows rows.part(s, size); every rank gets all of them.
/// Shapes   matrix: [rows.numel(), columns], dense; this rank's own rows are filled on entry.
template <class Real>
void gather_rows(Communicator* group, const BlockRange& rows, Matrix<Real> matrix);

/// Every rank of `group` has a partial fold of every element; rank s gets the fold over all ranks of the rows
/// rows.part(s, size), in place. Returns a view of those rows; the others keep what they hold.
/// Shapes   partial: [rows.numel(), columns], dense.
template <class Real>
Matrix<Real> fold_rows(Communicator* group, const BlockRange& rows, Matrix<Real> partial);

/// Fold over the ranks of both groups, tp first; the same bits on all of them.
double fold_over_ranks(const ByteGptPlace& place, double partial);

}  // namespace zeroproof::workload
