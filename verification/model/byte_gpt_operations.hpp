#pragma once
// The layers of a shape with swiglu without communication, forward and backward.
//
// In fp32 they are operations of the contract, computed by the reference: the workload library
// links no other implementation, and the matrix products take most of the time. Splits by tensor or
// context parallelism are done here, around the calls. In fp64, where tests compare gradients with
// differences, they are the same formulas.

#include <cstdint>
#include <vector>

#include "common/base/span.hpp"
#include "verification/model/byte_gpt_layers.hpp"

namespace zeroproof::workload {

/// y = x / sqrt(mean square of the row + 1e-5) * gain (RmsNormFn). x, y: [rows, width], dense.
template <class Real>
void rms_norm(Matrix<const Real> x, const Tensors<const Real>& params, int gain,
              NormSaved<Real>& saved, Matrix<Real> y);

/// Adds to dx, as layer_norm_backward() does; d gain is the fold over the positions of `rows`. The
/// terms of d gain are those of single rows (RmsNormBackwardFn), so that ranks may have any blocks
/// of that sum.
template <class Real>
void rms_norm_backward(const BlockRange& rows, Matrix<const Real> dy,
                       const Tensors<const Real>& params, const Tensors<Real>& grads, int gain,
                       const NormSaved<Real>& saved, Matrix<Real> dx);

/// y = gate * sigmoid(gate) * linear (SwigluFn without bias, weight and limit).
/// Shapes   x: [rows, 2 * columns], dense, gates before linear parts; y: [rows, columns], dense.
///          columns may be 0.
template <class Real>
void swiglu(Matrix<const Real> x, Matrix<Real> y);

/// dy: like y, dx: like x.
template <class Real>
void swiglu_backward(Matrix<const Real> x, Matrix<const Real> dy, Matrix<Real> dx);

/// Scores become probabilities (CausalSoftmaxFn). scores: [rows, T], dense; row i is position first
/// + i.
template <class Real>
void causal_softmax(std::int64_t first, Real scale, Matrix<Real> scores);

/// d loss / d probabilities becomes d loss / d scores, both [rows, T] and dense.
template <class Real>
void causal_softmax_backward(std::int64_t first, Real scale, Matrix<const Real> probabilities,
                             Matrix<Real> gradient);

/// Values that the cross-entropy stores per position for its backward pass; unused in fp64.
struct CrossEntropySaved {
  std::vector<std::uint32_t> largest;
  std::vector<std::int32_t> targets;
  std::vector<float> total, log_total;
};

/// Fold over the positions of `rows` of -ln(probability of the target), in nats; a term is rounded
/// to fp32
/// (CrossEntropyLossFn without smoothing and z-loss), their sum is fp64.
/// Shapes   logits: [rows, vocabulary], dense; in fp64 they become probabilities. targets: [rows]
double cross_entropy_loss(InstructionSet set, const BlockRange& rows, Matrix<float> logits,
                          Span<const std::uint8_t> targets, CrossEntropySaved& saved);
double cross_entropy_loss(InstructionSet set, const BlockRange& rows, Matrix<double> logits,
                          Span<const std::uint8_t> targets, CrossEntropySaved& saved);

/// Logits (in fp64 probabilities) become loss_scale / positions * d loss / d logits
/// (CrossEntropyBackwardFn), where `positions` counts the whole micro-batch.
void cross_entropy_loss_backward(Matrix<float> logits, Span<const std::uint8_t> targets,
                                 std::int64_t positions, float loss_scale,
                                 const CrossEntropySaved& saved);
void cross_entropy_loss_backward(Matrix<double> probabilities, Span<const std::uint8_t> targets,
                                 std::int64_t positions, double loss_scale,
                                 const CrossEntropySaved& saved);

}  // namespace zeroproof::workload
