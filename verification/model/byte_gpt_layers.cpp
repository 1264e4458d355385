#include "verification/model/byte_gpt_layers.hpp"

#include <algorithm>
#include <cmath>

#include "verification/model/blocked_sum.hpp"
#include "verification/model/portable_math.hpp"

namespace zeroproof::workload {
namespace {

template <class Real>
constexpr Real sqrt_2_over_pi = static_cast<Real>(0.7978845608028654);
template <class Real>
constexpr Real gelu_cubic = static_cast<Real>(0.044715);

// totals[j] = fold over i of term(i, j), j in [0, columns); many columns at a time, to vectorise.
template <class Real, class Term>
void column_sums_of(const BlockRange& rows, std::int64_t columns, Real* totals, const Term& term) {
  constexpr std::int64_t group = 64;
  for (std::int64_t first = 0; first < columns; first += group) {
    const std::int64_t count = std::min(group, columns - first);
    Real sums[group][sum_blocks] = {};
    for (int b = 0; b < rows.count; ++b) {
      Real sum[group] = {};
      for (std::int64_t i = rows.local_begin(b); i < rows.local_begin(b + 1); ++i) {
        for (std::int64_t j = 0; j < count; ++j) sum[j] += term(i, first + j);
      }
      for (std::int64_t j = 0; j < count; ++j) sums[j][b] = sum[j];
    }
    for (std::int64_t j = 0; j < count; ++j) {
      fused_fold(sums[j], rows.count);
      totals[first + j] = sums[j][0];
    }
  }
}

}  // namespace

template <class Real>
void column_sums(const BlockRange& rows, Matrix<const Real> a, Real* totals) {
  column_sums_of(rows, a.columns, totals,
                 [&](std::int64_t i, std::int64_t j) { return a.row(i)[j]; });
}

template <class Real>
void add_bias(const Real* bias, Matrix<Real> y) {
  for (std::int64_t i = 0; i < y.rows; ++i) {
    for (std::int64_t j = 0; j < y.columns; ++j) y.row(i)[j] += bias[j];
  }
}

template <class Real>
void layer_norm(Matrix<const Real> x, const Tensors<const Real>& params, int gain,
                NormSaved<Real>& saved, Matrix<Real> y) {
  const Real* gains = params.vector(gain);
  const Real* biases = params.vector(gain + 1);
  const auto width = static_cast<Real>(x.columns);
  for (std::int64_t i = 0; i < x.rows; ++i) {
    const Real* in = x.row(i);
    Real* normalized = saved.kept.view().row(i);
    Real* out = y.row(i);
    const Real mean = blocked_sum<Real>(x.columns, [&](std::int64_t j) { return in[j]; }) / width;
    for (std::int64_t j = 0; j < x.columns; ++j) normalized[j] = in[j] - mean;
    const Real variance =
        blocked_sum<Real>(x.columns,
                          [&](std::int64_t j) { return normalized[j] * normalized[j]; }) /
        width;
    const Real deviation = std::sqrt(variance + norm_epsilon<Real>);
    saved.deviation.view()(i, 0) = deviation;
    for (std::int64_t j = 0; j < x.columns; ++j) normalized[j] = normalized[j] / deviation;
    for (std::int64_t j = 0; j < x.columns; ++j) out[j] = normalized[j] * gains[j] + biases[j];
  }
}

template <class Real>
void layer_norm_backward(const BlockRange& rows, Matrix<const Real> dy,
                         const Tensors<const Real>& params, const Tensors<Real>& grads, int gain,
                         const NormSaved<Real>& saved, Matrix<Real> dx) {
  const Real* gains = params.vector(gain);
  const Matrix<const Real> normalized = saved.kept.view();
  const auto width = static_cast<Real>(dy.columns);
  column_sums_of(rows, dy.columns, grads.vector(gain), [&](std::int64_t i, std::int64_t j) {
    return dy.row(i)[j] * normalized.row(i)[j];
  });
  column_sums<Real>(rows, dy, grads.vector(gain + 1));
  std::vector<Real> scaled(dy.columns);  // d loss / d normalized
  for (std::int64_t i = 0; i < dy.rows; ++i) {
    const Real* unit = normalized.row(i);
    Real* out = dx.row(i);
    Real* d_unit = scaled.data();
    for (std::int64_t j = 0; j < dy.columns; ++j) d_unit[j] = dy.row(i)[j] * gains[j];
    const Real mean =
        blocked_sum<Real>(dy.columns, [&](std::int64_t j) { return d_unit[j]; }) / width;
    const Real slope =
        blocked_sum<Real>(dy.columns, [&](std::int64_t j) { return d_unit[j] * unit[j]; }) / width;
    const Real deviation = saved.deviation.view()(i, 0);
    for (std::int64_t j = 0; j < dy.columns; ++j) {
      out[j] = out[j] + ((d_unit[j] - mean) - unit[j] * slope) / deviation;
    }
  }
}

template <class Real>
void gelu(InstructionSet set, Matrix<const Real> u, Matrix<Real> t, Matrix<Real> y) {
  run_on(set, [&](auto) ZP_INLINE_BODY {
    for (std::int64_t i = 0; i < u.rows; ++i) {
      const Real* in = u.row(i);
      Real* tanhs = t.row(i);
      Real* out = y.row(i);
      for (std::int64_t j = 0; j < u.columns; ++j) {
        const Real cubic = in[j] * (Real{1} + gelu_cubic<Real> * (in[j] * in[j]));
        tanhs[j] = tanh_real(sqrt_2_over_pi<Real> * cubic);
        out[j] = (Real{0.5} * in[j]) * (Real{1} + tanhs[j]);
      }
    }
  });
}

template <class Real>
void gelu_backward(InstructionSet set, Matrix<const Real> u, Matrix<const Real> t,
                   Matrix<Real> gradient) {
  run_on(set, [&](auto) ZP_INLINE_BODY {
    for (std::int64_t i = 0; i < u.rows; ++i) {
      const Real* in = u.row(i);
      const Real* tanhs = t.row(i);
      Real* out = gradient.row(i);
      for (std::int64_t j = 0; j < u.columns; ++j) {
        const Real d_cubic = Real{1} + (Real{3} * gelu_cubic<Real>)*(in[j] * in[j]);
        const Real d_tanh = (Real{1} - tanhs[j] * tanhs[j]) * (sqrt_2_over_pi<Real> * d_cubic);
        out[j] = out[j] * (Real{0.5} * (Real{1} + tanhs[j]) + (Real{0.5} * in[j]) * d_tanh);
      }
    }
  });
}

template <class Real>
Real softmax_row(InstructionSet set, Real* row, std::int64_t count, std::int64_t size) {
  Real sum = 0;
  run_on(set, [&](auto) ZP_INLINE_BODY {
    Real max = row[0];
    for (std::int64_t j = 1; j < count; ++j) max = row[j] > max ? row[j] : max;
    for (std::int64_t j = 0; j < count; ++j) row[j] = exp_real(row[j] - max);
    sum = blocked_prefix_sum<Real>(size, count, [&](std::int64_t j) { return row[j]; });
    for (std::int64_t j = 0; j < count; ++j) row[j] = row[j] / sum;
  });
  std::fill(row + count, row + size, Real{0});
  return sum;
}

template <class Real>
double cross_entropy(InstructionSet set, const BlockRange& rows, Matrix<Real> logits,
                     Span<const std::uint8_t> targets) {
  return partial_sum<double>(rows, [&](std::int64_t i) {
    Real* row = logits.row(i);
    // ln(sum) - (target's logit - max), not -ln(probability), which would be infinite where a
    // probability rounds to 0.
    const double target = row[targets[i]];
    const double max = *std::max_element(row, row + logits.columns);
    const double sum = softmax_row(set, row, logits.columns, logits.columns);
    return log_f64(sum) - (target - max);
  });
}

template <class Real>
void cross_entropy_backward(Matrix<Real> probabilities, Span<const std::uint8_t> targets,
                            std::int64_t positions, Real loss_scale) {
  const auto divisor = static_cast<Real>(positions);
  for (std::int64_t i = 0; i < probabilities.rows; ++i) {
    Real* row = probabilities.row(i);
    row[targets[i]] -= Real{1};
    for (std::int64_t j = 0; j < probabilities.columns; ++j) row[j] = row[j] / divisor * loss_scale;
  }
}

// NOLINTBEGIN(bugprone-macro-parentheses): a type
#define ZP_INSTANTIATE(Real)                                                                      \
  template void column_sums(const BlockRange&, Matrix<const Real>, Real*);                        \
  template void add_bias(const Real*, Matrix<Real>);                                              \
  template void layer_norm(Matrix<const Real>, const Tensors<const Real>&, int, NormSaved<Real>&, \
                           Matrix<Real>);                                                         \
  template void layer_norm_backward(const BlockRange&, Matrix<const Real>,                        \
                                    const Tensors<const Real>&, const Tensors<Real>&, int,        \
                                    const NormSaved<Real>&, Matrix<Real>);                        \
  template void gelu(InstructionSet, Matrix<const Real>, Matrix<Real>, Matrix<Real>);             \
  template void gelu_backward(InstructionSet, Matrix<const Real>, Matrix<const Real>,             \
                              Matrix<Real>);                                                      \
  template Real softmax_row(InstructionSet, Real*, std::int64_t, std::int64_t);                   \
  template double cross_entropy(InstructionSet, const BlockRange&, Matrix<Real>,                  \
                                Span<const std::uint8_t>);                                        \
  template void cross_entropy_backward(Matrix<Real>, Span<const std::uint8_t>, std::int64_t, Real)

ZP_INSTANTIATE(float);
ZP_INSTANTIATE(double);
#undef ZP_INSTANTIATE
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace zeroproof::workload
