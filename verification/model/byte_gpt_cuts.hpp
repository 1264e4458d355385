#pragma once
// The model's tensors under tensor parallelism: split dimensions, local shapes, places in the
// whole.

#include <vector>

#include "common/layout/tp_cut.hpp"
#include "verification/model/byte_gpt.hpp"

namespace zeroproof::workload {

/// Split dimension of every tensor in registration order, -1 where every TP rank has the whole
/// tensor. Query, key, value, mlp.gate and mlp.up are split by outputs (with their biases),
/// attention.output and mlp.down by inputs. Of n, rank t of tp has [floor(n * b / 8), floor(n * e /
/// 8)), b = 8 t / tp, e = 8 (t + 1) / tp.
std::vector<int> byte_gpt_cuts(const ByteGptShape& shape);

/// The tensors of one TP rank, possibly without elements, and their places in
/// FlatLayout(byte_gpt_params(shape)).
/// Errors: invalid_argument as byte_gpt_params and make_tp_model, and if tp_size does not divide
/// the heads.
TpModel byte_gpt_tp_model(const ByteGptShape& shape, int tp_size, int tp_rank);

}  // namespace zeroproof::workload
