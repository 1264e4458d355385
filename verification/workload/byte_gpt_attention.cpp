#include "verification/workload/byte_gpt_attention.hpp"

#include <algorithm>
#include <cmath>

#include "verification/workload/blocked_sum.hpp"

namespace zeroproof::workload {
namespace {

template <class Real>
Matrix<Real> head_columns(const ByteGptShape& shape, int head, Matrix<Real> all) {
  const std::int64_t head_width = shape.width / shape.heads;
  return all.column_range(head * head_width, head_width);
}

template <class Real>
Real sqrt_head_width(const ByteGptShape& shape) {
  return std::sqrt(static_cast<Real>(shape.width / shape.heads));
}

}  // namespace

template <class Real>
void attention(InstructionSet set, const ByteGptShape& shape, AttentionSaved<Real>& saved,
               Matrix<Real> output) {
  const Real divisor = sqrt_head_width<Real>(shape);
  for (int h = 0; h < shape.heads; ++h) {
    const Matrix<Real> query = head_columns(shape, h, saved.query.view());
    const Matrix<Real> key = head_columns(shape, h, saved.key.view());
    const Matrix<Real> probabilities = saved.probabilities[static_cast<std::size_t>(h)].view();
    matmul(set, query, key.transposed(), probabilities);
    for (std::int64_t i = 0; i < probabilities.rows; ++i) {
      Real* row = probabilities.row(i);
      for (std::int64_t j = 0; j <= i; ++j) row[j] = row[j] / divisor;
      softmax_row(set, row, i + 1, probabilities.columns);
    }
    matmul(set, probabilities, head_columns(shape, h, saved.value.view()), head_columns(shape, h, output));
  }
}

template <class Real>
void attention_backward(InstructionSet set, const ByteGptShape& shape, const AttentionSaved<Real>& saved,
                        Matrix<const Real> d_output, Matrix<Real> d_query, Matrix<Real> d_key,
                        Matrix<Real> d_value) {
  const Real divisor = sqrt_head_width<Real>(shape);
  Buffer<Real> d_scores_buffer(shape.context, shape.context);
  const Matrix<Real> d_scores = d_scores_buffer.view();
  for (int h = 0; h < shape.heads; ++h) {
    const Matrix<const Real> probabilities = saved.probabilities[static_cast<std::size_t>(h)].view();
    const Matrix<const Real> d_out = head_columns(shape, h, d_output);
    // d_scores holds d probabilities until the loop below.
    matmul(set, d_out, head_columns(shape, h, saved.value.view()).transposed(), d_scores);
    matmul(set, probabilities.transposed(), d_out, head_columns(shape, h, d_value));
    for (std::int64_t i = 0; i < d_scores.rows; ++i) {
      const Real* p = probabilities.row(i);
      Real* d = d_scores.row(i);
      const Real mean =
          blocked_prefix_sum<Real>(d_scores.columns, i + 1, [&](std::int64_t j) { return p[j] * d[j]; });
      for (std::int64_t j = 0; j <= i; ++j) d[j] = (p[j] * (d[j] - mean)) / divisor;
      std::fill(d + i + 1, d + d_scores.columns, Real{0});
    }
    matmul(set, d_scores, head_columns(shape, h, saved.key.view()), head_columns(shape, h, d_query));
    matmul(set, d_scores.transposed(), head_columns(shape, h, saved.query.view()),
           head_columns(shape, h, d_key));
  }
}

#define ZP_INSTANTIATE(Real)                                                                         \
  template void attention(InstructionSet, const ByteGptShape&, AttentionSaved<Real>&, Matrix<Real>); \
  template void attention_backward(InstructionSet, const ByteGptShape&, const AttentionSaved<Real>&, \
                                   Matrix<const Real>, Matrix<Real>, Matrix<Real>, Matrix<Real>)

ZP_INSTANTIATE(float);
ZP_INSTANTIATE(double);

}  // namespace zeroproof::workload
