#pragma once
// Causal multi-head attention without its four projections, which are linear layers.
//
// A rank computes its heads for the positions of its TP group and attends to all positions: keys
// and values are gathered over the CP group. d key and d value are sums over the attending
// positions, completed over the CP group.

#include <vector>

#include "verification/model/byte_gpt_linear.hpp"

namespace zeroproof::workload {

/// Values that attention stores for its backward pass. Rows are those of the TP group, or all T;
/// columns are those of the rank's heads, width / heads consecutive ones each.
template <class Real>
struct AttentionSaved {
  explicit AttentionSaved(const Pass<Real>& pass)
      : query(pass.group_rows().numel(), pass.place.slice(pass.shape.width).numel()),
        key(pass.shape.context, pass.place.slice(pass.shape.width).numel()),
        value(pass.shape.context, pass.place.slice(pass.shape.width).numel()),
        probabilities(static_cast<std::size_t>(pass.shape.heads / pass.place.tp_size),
                      Buffer<Real>(pass.group_rows().numel(), pass.shape.context)) {}

  Buffer<Real> query;  ///< [rows, its columns]
  Buffer<Real> key;    ///< [T, its columns]
  Buffer<Real> value;  ///< [T, its columns]
  std::vector<Buffer<Real>>
      probabilities;  ///< per head [rows, T]: row = attending position, +0 for later ones
};

/// For each head: output = softmax(query key^T / sqrt(head width)) value, over earlier positions
/// and its own. Reads query, key and value of `saved`, of the latter two the rank's own rows, and
/// gathers their other rows; writes its probabilities. output: [rows, its columns]
template <class Real>
void attention(const Pass<Real>& pass, AttentionSaved<Real>& saved, Matrix<Real> output);

/// d_output, d_query: [rows, its columns]; d_key, d_value: [T, its columns], where the rows of the
/// TP group are the result and the others scratch.
template <class Real>
void attention_backward(const Pass<Real>& pass, const AttentionSaved<Real>& saved,
                        Matrix<const Real> d_output, Matrix<Real> d_query, Matrix<Real> d_key,
                        Matrix<Real> d_value);

}  // namespace zeroproof::workload
