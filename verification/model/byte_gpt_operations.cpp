#include "verification/model/byte_gpt_operations.hpp"

#include <algorithm>

#include "reference/operations.hpp"
#include "verification/model/blocked_sum.hpp"
#include "verification/model/byte_gpt_formulas.hpp"

namespace zeroproof::workload {
namespace {

const Exec exec;

template <class Real>
Span<Real> elements(Matrix<Real> dense) {
  return {dense.data, static_cast<std::size_t>(dense.rows * dense.columns)};
}

/// The vector of a tensor, `count` elements long.
template <class Real>
Span<Real> vector_of(const Tensors<Real>& tensors, int tensor, std::int64_t count) {
  return {tensors.vector(tensor), static_cast<std::size_t>(count)};
}

/// The operations take square matrices: [T, T], zero except for the rank's rows.
template <class Real>
Buffer<Real> square(std::int64_t first, Matrix<const Real> rows) {
  Buffer<Real> whole(rows.columns, rows.columns);
  std::copy_n(rows.data, rows.rows * rows.columns, whole.view().row_range(first, rows.rows).data);
  return whole;
}

template <class Real>
void copy_rows(std::int64_t first, const Buffer<Real>& whole, Matrix<Real> rows) {
  std::copy_n(whole.view().row_range(first, rows.rows).data, rows.rows * rows.columns, rows.data);
}

constexpr VocabularyPart whole_vocabulary{vocabulary};
constexpr CrossEntropyOptions plain_loss{};

}  // namespace

template <class Real>
void rms_norm(Matrix<const Real> x, const Tensors<const Real>& params, int gain,
              NormSaved<Real>& saved, Matrix<Real> y) {
  std::copy_n(x.data, x.rows * x.columns, saved.kept.view().data);
  formulas::rms_norm(exec, x.columns, norm_epsilon<Real>, elements(x),
                     vector_of(params, gain, x.columns), elements(y),
                     elements(saved.deviation.view()));
}

template <class Real>
void rms_norm_backward(const BlockRange& rows, Matrix<const Real> dy,
                       const Tensors<const Real>& params, const Tensors<Real>& grads, int gain,
                       const NormSaved<Real>& saved, Matrix<Real> dx) {
  const Matrix<const Real> x = saved.kept.view();
  const Matrix<const Real> deviation = saved.deviation.view();
  Buffer<Real> d_row(1, x.columns), terms(x.rows, x.columns);
  for (std::int64_t i = 0; i < x.rows; ++i) {
    formulas::rms_norm_backward(exec, x.columns, elements(dy.row_range(i, 1)),
                                elements(x.row_range(i, 1)), vector_of(params, gain, x.columns),
                                elements(deviation.row_range(i, 1)), elements(d_row.view()),
                                elements(terms.view().row_range(i, 1)));
    for (std::int64_t j = 0; j < x.columns; ++j) dx.row(i)[j] += d_row.view()(0, j);
  }
  column_sums<Real>(rows, terms.view(), grads.vector(gain));
}

template <class Real>
void swiglu(Matrix<const Real> x, Matrix<Real> y) {
  if (y.columns == 0) return;  // a TP rank without hidden units
  formulas::swiglu(exec, y.columns, Real{0}, elements(x), {}, {}, elements(y));
}

template <class Real>
void swiglu_backward(Matrix<const Real> x, Matrix<const Real> dy, Matrix<Real> dx) {
  if (dy.columns == 0) return;
  formulas::swiglu_backward(exec, dy.columns, Real{0}, elements(dy), elements(x), {}, {},
                            elements(dx), {});
}

template <class Real>
void causal_softmax(std::int64_t first, Real scale, Matrix<Real> scores) {
  const Buffer<Real> x = square<Real>(first, scores);
  Buffer<Real> y(scores.columns, scores.columns);
  formulas::causal_softmax(exec, scores.columns, scale, elements(x.view()), elements(y.view()));
  copy_rows(first, y, scores);
}

template <class Real>
void causal_softmax_backward(std::int64_t first, Real scale, Matrix<const Real> probabilities,
                             Matrix<Real> gradient) {
  const Buffer<Real> dy = square<Real>(first, gradient);
  const Buffer<Real> y = square<Real>(first, probabilities);
  Buffer<Real> dx(gradient.columns, gradient.columns);
  formulas::causal_softmax_backward(exec, gradient.columns, scale, elements(dy.view()),
                                    elements(y.view()), elements(dx.view()));
  copy_rows(first, dx, gradient);
}

double cross_entropy_loss(InstructionSet, const BlockRange& rows, Matrix<float> logits,
                          Span<const std::uint8_t> targets, CrossEntropySaved& saved) {
  const std::size_t count = targets.size();
  std::vector<float> exp_sum(count), shifted_sum(count), loss(count);
  std::vector<std::uint32_t> target_bits(count);
  saved.largest.resize(count);
  saved.targets.assign(targets.begin(), targets.end());
  saved.total.resize(count);
  saved.log_total.resize(count);
  const Span<const float> x = elements(logits);
  reference::cross_entropy_max(exec, whole_vocabulary, x, saved.largest);
  reference::cross_entropy_sum(exec, whole_vocabulary, x, saved.largest, saved.targets, exp_sum,
                               shifted_sum, target_bits);
  reference::cross_entropy_loss(exec, plain_loss, vocabulary, 1, saved.largest, saved.targets,
                                exp_sum, shifted_sum, target_bits, loss, saved.total,
                                saved.log_total);
  return partial_sum<double>(rows, [&](std::int64_t i) { return loss[i]; });
}

double cross_entropy_loss(InstructionSet set, const BlockRange& rows, Matrix<double> logits,
                          Span<const std::uint8_t> targets, CrossEntropySaved&) {
  return cross_entropy<double>(set, rows, logits, targets);
}

void cross_entropy_loss_backward(Matrix<float> logits, Span<const std::uint8_t> targets,
                                 std::int64_t positions, float loss_scale,
                                 const CrossEntropySaved& saved) {
  const std::vector<float> d_loss(targets.size(), loss_scale / static_cast<float>(positions));
  Buffer<float> d_logits(logits.rows, logits.columns);
  reference::cross_entropy_backward(exec, whole_vocabulary, plain_loss, d_loss, elements(logits),
                                    saved.largest, saved.targets, saved.total, saved.log_total,
                                    elements(d_logits.view()));
  copy_rows(0, d_logits, logits);
}

void cross_entropy_loss_backward(Matrix<double> probabilities, Span<const std::uint8_t> targets,
                                 std::int64_t positions, double loss_scale,
                                 const CrossEntropySaved&) {
  cross_entropy_backward<double>(probabilities, targets, positions, loss_scale);
}

#define ZP_INSTANTIATE(Real)                                                                    \
  template void rms_norm(Matrix<const Real>, const Tensors<const Real>&, int, NormSaved<Real>&, \
                         Matrix<Real>);                                                         \
  template void rms_norm_backward(const BlockRange&, Matrix<const Real>,                        \
                                  const Tensors<const Real>&, const Tensors<Real>&, int,        \
                                  const NormSaved<Real>&, Matrix<Real>);                        \
  template void swiglu(Matrix<const Real>, Matrix<Real>);                                       \
  template void swiglu_backward(Matrix<const Real>, Matrix<const Real>, Matrix<Real>);          \
  template void causal_softmax(std::int64_t, Real, Matrix<Real>);                               \
  template void causal_softmax_backward(std::int64_t, Real, Matrix<const Real>, Matrix<Real>)

ZP_INSTANTIATE(float);
ZP_INSTANTIATE(double);
#undef ZP_INSTANTIATE

}  // namespace zeroproof::workload
