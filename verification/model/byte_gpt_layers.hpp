#pragma once
// The layers of byte_gpt without communication, forward and backward. Rows are positions; T is the
// number of positions of a rank, all or those of some blocks. A sum over positions is then the fold
// of these blocks, part of the whole sum.
//
// Backward functions take d loss / d output and overwrite d loss / d input and d loss / d
// parameters. Every function is instantiated for float and double.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/base/span.hpp"
#include "verification/model/byte_gpt_tensors.hpp"
#include "verification/model/matmul.hpp"

namespace zeroproof::workload {

/// A dense matrix that owns its elements, initially zero. Its views never have a null pointer, so
/// that pointer arithmetic on rows and columns of an empty matrix is valid.
template <class Real>
class Buffer {
 public:
  Buffer(std::int64_t rows, std::int64_t columns)
      : rows_(rows),
        columns_(columns),
        elements_(static_cast<std::size_t>(std::max<std::int64_t>(rows * columns, 1))) {}

  Matrix<Real> view() { return {elements_.data(), rows_, columns_}; }
  Matrix<const Real> view() const { return {elements_.data(), rows_, columns_}; }

 private:
  std::int64_t rows_;
  std::int64_t columns_;
  std::vector<Real> elements_;
};

/// totals[j] = fold over the rows of a, which are the positions of `rows`: [columns]
template <class Real>
void column_sums(const BlockRange& rows, Matrix<const Real> a, Real* totals);

/// Adds a bias to every row of y.
template <class Real>
void add_bias(const Real* bias, Matrix<Real> y);

/// Added to the variance of a layer norm, to the mean square of an RMS norm.
template <class Real>
inline constexpr Real norm_epsilon = static_cast<Real>(1e-5);

/// Values that a norm stores for its backward pass.
template <class Real>
struct NormSaved {
  NormSaved(std::int64_t rows, std::int64_t columns) : kept(rows, columns), deviation(rows, 1) {}
  Buffer<Real> kept;       ///< layer norm: (x - mean) / deviation; RMS norm: x
  Buffer<Real> deviation;  ///< sqrt(variance + 1e-5), or sqrt(mean square + 1e-5), one per row
};

/// y = normalized * gain + bias, row by row; the variance is the mean square of x - mean.
template <class Real>
void layer_norm(Matrix<const Real> x, const Tensors<const Real>& params, int gain,
                NormSaved<Real>& saved, Matrix<Real> y);

/// Unlike the other backward functions it adds to dx, because its input also feeds the residual
/// stream.
template <class Real>
void layer_norm_backward(const BlockRange& rows, Matrix<const Real> dy,
                         const Tensors<const Real>& params, const Tensors<Real>& grads, int gain,
                         const NormSaved<Real>& saved, Matrix<Real> dx);

/// y = u / 2 * (1 + t), t = tanh(sqrt(2 / pi) * (u * (1 + 0.044715 u^2))), element by element; t is
/// stored.
template <class Real>
void gelu(InstructionSet set, Matrix<const Real> u, Matrix<Real> t, Matrix<Real> y);

/// gradient = gradient * d y / d u, in place.
template <class Real>
void gelu_backward(InstructionSet set, Matrix<const Real> u, Matrix<const Real> t,
                   Matrix<Real> gradient);

/// The first `count` elements of a row of `size` become exp(row - max) / sum, the others +0.
/// Returns the sum. The sum has the blocks of `size` terms, so a split of the row into parts does
/// not depend on `count`.
template <class Real>
Real softmax_row(InstructionSet set, Real* row, std::int64_t count, std::int64_t size);

/// Logits [T, vocabulary] become probabilities; returns the fold over the positions of `rows` of
/// -ln(probability of the target), in nats. targets: [T]
template <class Real>
double cross_entropy(InstructionSet set, const BlockRange& rows, Matrix<Real> logits,
                     Span<const std::uint8_t> targets);

/// Probabilities become loss_scale * d loss / d logits = (probability - [target]) / positions *
/// loss_scale, where `positions` counts the whole micro-batch.
template <class Real>
void cross_entropy_backward(Matrix<Real> probabilities, Span<const std::uint8_t> targets,
                            std::int64_t positions, Real loss_scale);

}  // namespace zeroproof::workload
