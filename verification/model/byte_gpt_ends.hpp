#pragma once
// The first and last layers: embeddings, final norm, head with loss. Rows are the rank's own
// positions.

#include <cstdint>

#include "verification/model/byte_gpt_linear.hpp"
#include "verification/model/byte_gpt_operations.hpp"

namespace zeroproof::workload {

/// x = token embedding + position embedding: [own rows, width]. tokens: [T + 1], of the whole
/// micro-batch.
template <class Real>
void embeddings_forward(const Pass<Real>& pass, Span<const std::uint8_t> tokens, Matrix<Real> x);

/// Folds over the own rows, +0 where none counts. With `adds` they are added to the gradients.
template <class Real>
void embeddings_backward(const Pass<Real>& pass, Span<const std::uint8_t> tokens,
                         Matrix<const Real> dx, const Tensors<Real>& grads, bool adds);

/// Values that final norm and head store for their backward passes.
template <class Real>
struct HeadSaved {
  explicit HeadSaved(const Pass<Real>& pass)
      : norm(pass.own_rows().numel(), pass.shape.width),
        input(pass.own_rows().numel(), pass.shape.width),
        logits(pass.own_rows().numel(), vocabulary),
        d_input(pass.own_rows().numel(), pass.shape.width) {}

  NormSaved<Real> norm;
  Buffer<Real> input;  ///< [own rows, width]
  Buffer<Real>
      logits;  ///< [own rows, vocabulary]; probabilities after the loss, but not in fp32 with swiglu
  CrossEntropySaved totals;  ///< of the logits, with swiglu
  Buffer<Real> d_input;  ///< [own rows, width], from the head's backward pass to that of the norm
};

/// x: [own rows, width]
template <class Real>
void final_norm_forward(const Pass<Real>& pass, Matrix<const Real> x, HeadSaved<Real>& saved);

/// The loss of the whole micro-batch, on every rank.
template <class Real>
double head_forward(const Pass<Real>& pass, Span<const std::uint8_t> tokens,
                    HeadSaved<Real>& saved);

/// Tied: writes the gradients of both embeddings; that of positions is +0.
template <class Real>
void head_backward(const Pass<Real>& pass, Span<const std::uint8_t> tokens, Real loss_scale,
                   const Tensors<Real>& grads, HeadSaved<Real>& saved);

/// dx: [own rows, width], +0 on entry, d loss / d x on return.
template <class Real>
void final_norm_backward(const Pass<Real>& pass, const Tensors<Real>& grads,
                         const HeadSaved<Real>& saved, Matrix<Real> dx);

}  // namespace zeroproof::workload
