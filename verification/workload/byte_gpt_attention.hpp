#pragma once
// Causal multi-head attention without its four projections, which are linear layers.

#include <vector>

#include "verification/workload/byte_gpt.hpp"
#include "verification/workload/byte_gpt_layers.hpp"
#include "verification/workload/matmul.hpp"

namespace zeroproof::workload {

/// What attention keeps for its backward pass. Of [T, width], head h has width / heads neighbouring columns.
template <class Real>
struct AttentionSaved {
  explicit AttentionSaved(const ByteGptShape& shape)
      : query(shape.context, shape.width),
        key(shape.context, shape.width),
        value(shape.context, shape.width),
        probabilities(static_cast<std::size_t>(shape.heads), Buffer<Real>(shape.context, shape.context)) {}

  Buffer<Real> query;                       ///< [T, width]
  Buffer<Real> key;                         ///< [T, width]
  Buffer<Real> value;                       ///< [T, width]
  std::vector<Buffer<Real>> probabilities;  ///< per head [T, T]: row = position that looks, +0 ahead of it
};

/// For each head: output = softmax(query key^T / sqrt(head width)) value, over earlier positions and its own.
/// Reads query, key and value of `saved`, writes its probabilities. output: [T, width]
template <class Real>
void attention(InstructionSet set, const ByteGptShape& shape, AttentionSaved<Real>& saved,
               Matrix<Real> output);

/// d_output, d_query, d_key, d_value: [T, width]
template <class Real>
void attention_backward(InstructionSet set, const ByteGptShape& shape, const AttentionSaved<Real>& saved,
                        Matrix<const Real> d_output, Matrix<Real> d_query, Matrix<Real> d_key,
                        Matrix<Real> d_value);

}  // namespace zeroproof::workload
