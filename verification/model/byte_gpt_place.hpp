#pragma once
// Several ranks that compute one micro-batch together: positions of the ranks and exchange of rows
// (R18).
//
// Rank (c, t) of cp * tp has the position blocks [(c * tp + t) * 8 / (cp * tp), ...): its own rows
// of the residual stream. The TP group of CP rank c has the rows of c together; its ranks split
// heads and hidden width at block boundaries. Messages are bytes; received partial folds are added
// here, by the tree.

#include <cstdint>

#include "common/comm/communicator.hpp"
#include "verification/model/blocked_sum.hpp"
#include "verification/model/byte_gpt.hpp"
#include "verification/model/matmul.hpp"

namespace zeroproof::workload {

/// The groups of one rank. Null is a group of one rank. They must outlive every object that uses
/// them.
struct ByteGptGroups {
  Communicator* tp = nullptr;
  Communicator* cp = nullptr;
};

/// Errors: invalid_argument if a size is not 1, 2, 4 or 8, their product is above 8, or tp_size
/// does not divide the heads; also if embeddings are tied and there is more than one rank.
void check_sizes(const ByteGptShape& shape, int tp_size, int cp_size);

/// A rank's place in its groups.
struct ByteGptPlace {
  ByteGptPlace() = default;
  /// Errors as check_sizes.
  ByteGptPlace(const ByteGptShape& shape, const ByteGptGroups& groups);

  /// The rows of the TP group among `positions`.
  BlockRange group_rows(std::int64_t positions) const {
    return BlockRange{positions}.part(cp_rank, cp_size);
  }
  /// This rank's own rows among `positions`.
  BlockRange own_rows(std::int64_t positions) const {
    return group_rows(positions).part(tp_rank, tp_size);
  }
  /// This rank's part of `extent` columns of heads or hidden units.
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

/// Every rank of `group` has a partial fold of every element; rank s gets the fold over all ranks
/// of the rows rows.part(s, size), in place. Returns a view of those rows; the others do not
/// change.
/// Shapes   partial: [rows.numel(), columns], dense.
template <class Real>
Matrix<Real> fold_rows(Communicator* group, const BlockRange& rows, Matrix<Real> partial);

/// Fold over the ranks of both groups, tp first; the same bits on all of them.
double fold_over_ranks(const ByteGptPlace& place, double partial);

}  // namespace zeroproof::workload
