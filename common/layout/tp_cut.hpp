#pragma once
// Tensor parallelism: the tensors of one TP rank, and their positions in the undistributed model
// (R13).

#include <vector>

#include "common/layout/flat_layout.hpp"
#include "common/layout/process_grid.hpp"

namespace zeroproof {

/// Tensors of one TP rank, in registration order. placement[k].global(e) is defined for the
/// elements e of params[k].
struct TpModel {
  std::vector<ParamSpec> params;
  std::vector<TensorPlacement> placement;  ///< [num_tensors]
};

/// Splits every tensor in its dimension cut_dim[k] between blocks (R18): of n, TP rank t gets [n*b/8, n*e/8)
/// rounded down, with b = 8 t / tp_size and e = 8 (t + 1) / tp_size. Sizes may be uneven, and 0.
///
/// Shapes   params: undistributed. cut_dim: [num_tensors], -1 for tensors that every TP rank has completely.
/// Errors   invalid_argument if the counts differ, a tensor does not have its split dimension, tp_size is not
///          1, 2, 4 or 8, or there is no such rank; and the errors of FlatLayout.
TpModel make_tp_model(const std::vector<ParamSpec>& params, const std::vector<int>& cut_dim,
                      int tp_size, int tp_rank);

}  // namespace zeroproof
