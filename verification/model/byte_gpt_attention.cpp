#include "verification/model/byte_gpt_attention.hpp"

#include <algorithm>
#include <cmath>

#include "verification/model/blocked_sum.hpp"
#include "verification/model/byte_gpt_operations.hpp"

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

// scores: [rows, T] of one head, probabilities on return. Row i is position first + i.
template <class Real>
void softmax(InstructionSet set, std::int64_t first, Real divisor, Matrix<Real> scores) {
  for (std::int64_t i = 0; i < scores.rows; ++i) {
    Real* row = scores.row(i);
    const std::int64_t seen = first + i + 1;
    for (std::int64_t j = 0; j < seen; ++j) row[j] = row[j] / divisor;
    softmax_row(set, row, seen, scores.columns);
  }
}

// d_scores: [rows, T] of one head, d loss / d probabilities on entry. Row i is position first + i.
template <class Real>
void softmax_backward(std::int64_t first, Real divisor, Matrix<const Real> probabilities,
                      Matrix<Real> d_scores) {
  for (std::int64_t i = 0; i < d_scores.rows; ++i) {
    const std::int64_t seen = first + i + 1;
    const Real* p = probabilities.row(i);
    Real* d = d_scores.row(i);
    const Real mean = blocked_prefix_sum<Real>(d_scores.columns, seen,
                                               [&](std::int64_t j) { return p[j] * d[j]; });
    for (std::int64_t j = 0; j < seen; ++j) d[j] = (p[j] * (d[j] - mean)) / divisor;
    std::fill(d + seen, d + d_scores.columns, Real{0});
  }
}

}  // namespace

template <class Real>
void attention(const Pass<Real>& pass, AttentionSaved<Real>& saved, Matrix<Real> output) {
  const ByteGptShape& shape = pass.shape;
  const Real divisor = sqrt_head_width<Real>(shape);
  const std::int64_t first = pass.group_rows().begin();
  gather_rows(pass.place.groups.cp, pass.positions(), saved.key.view());
  gather_rows(pass.place.groups.cp, pass.positions(), saved.value.view());
  for (int h = 0; h < shape.heads / pass.place.tp_size; ++h) {
    const Matrix<Real> query = head_columns(shape, h, saved.query.view());
    const Matrix<Real> key = head_columns(shape, h, saved.key.view());
    const Matrix<Real> probabilities = saved.probabilities[h].view();
    matmul(pass.set, query, key.transposed(), probabilities);
    if (shape.swiglu) {
      causal_softmax<Real>(first, Real{1} / divisor, probabilities);
    } else {
      softmax(pass.set, first, divisor, probabilities);
    }
    matmul(pass.set, probabilities, head_columns(shape, h, saved.value.view()),
           head_columns(shape, h, output));
  }
}

template <class Real>
void attention_backward(const Pass<Real>& pass, const AttentionSaved<Real>& saved,
                        Matrix<const Real> d_output, Matrix<Real> d_query, Matrix<Real> d_key,
                        Matrix<Real> d_value) {
  const ByteGptShape& shape = pass.shape;
  const Real divisor = sqrt_head_width<Real>(shape);
  const BlockRange rows = pass.group_rows();
  Buffer<Real> d_scores_buffer(rows.numel(), shape.context);
  const Matrix<Real> d_scores = d_scores_buffer.view();
  for (int h = 0; h < shape.heads / pass.place.tp_size; ++h) {
    const Matrix<const Real> probabilities = saved.probabilities[h].view();
    const Matrix<const Real> d_out = head_columns(shape, h, d_output);
    matmul(pass.set, d_out, head_columns(shape, h, saved.value.view()).transposed(), d_scores);
    matmul(pass.set, probabilities.transposed(), d_out, head_columns(shape, h, d_value), rows);
    if (shape.swiglu) {
      causal_softmax_backward<Real>(rows.begin(), Real{1} / divisor, probabilities, d_scores);
    } else {
      softmax_backward<Real>(rows.begin(), divisor, probabilities, d_scores);
    }
    matmul(pass.set, d_scores, head_columns(shape, h, saved.key.view()),
           head_columns(shape, h, d_query));
    matmul(pass.set, d_scores.transposed(), head_columns(shape, h, saved.query.view()),
           head_columns(shape, h, d_key), rows);
  }
  fold_rows(pass.place.groups.cp, pass.positions(), d_key);
  fold_rows(pass.place.groups.cp, pass.positions(), d_value);
}

#define ZP_INSTANTIATE(Real)                                                       \
  template void attention(const Pass<Real>&, AttentionSaved<Real>&, Matrix<Real>); \
  template void attention_backward(const Pass<Real>&, const AttentionSaved<Real>&, \
                                   Matrix<const Real>, Matrix<Real>, Matrix<Real>, Matrix<Real>)

ZP_INSTANTIATE(float);
ZP_INSTANTIATE(double);
#undef ZP_INSTANTIATE

}  // namespace zeroproof::workload
