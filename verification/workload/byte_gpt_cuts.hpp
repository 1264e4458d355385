#pragma once
// What tensor parallelism makes of the model's tensors: cut dimensions, local shapes, places in the whole.

#include <vector>

#include "common/base/span.hpp"
#include "common/layout/flat_layout.hpp"
#include "common/layout/process_grid.hpp"
#include "verification/workload/byte_gpt.hpp"

namespace zeroproof::workload {

/// Cut dimension of every tensor in registration order, -1 where every TP rank has the whole tensor. Query,
/// key, value and mlp.up are cut by outputs (their biases with them), attention.output and mlp.down by
/// inputs. Of n, rank t of tp has [floor(n * b / 8), floor(n * e / 8)), b = 8 t / tp, e = 8 (t + 1) / tp.
std::vector<int> byte_gpt_cuts(const ByteGptShape& shape);

/// The tensors of one TP rank: names and order of byte_gpt_params(shape), cut dimensions shortened, possibly
/// to 0. Where slices are uneven, a tensor may start elsewhere in the local layout of another TP rank.
/// Errors: invalid_argument as byte_gpt_params, if tp_size is not 1, 2, 4 or 8 or does not divide the heads,
/// or unless 0 <= tp_rank < tp_size.
std::vector<ParamSpec> byte_gpt_local_params(const ByteGptShape& shape, int tp_size, int tp_rank);

/// Where they stand in FlatLayout(byte_gpt_params(shape)). Errors as byte_gpt_local_params.
std::vector<TensorPlacement> byte_gpt_placements(const ByteGptShape& shape, int tp_size, int tp_rank);

}  // namespace zeroproof::workload
