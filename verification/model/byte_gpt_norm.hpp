#pragma once
// The norms of byte_gpt: layer norms, or RMS norms in a shape with swiglu.

#include "verification/model/byte_gpt_linear.hpp"

namespace zeroproof::workload {

/// y = norm(x). x, y: [own rows, width], dense.
template <class Real>
void norm(const Pass<Real>& pass, Matrix<const Real> x, int gain, NormSaved<Real>& saved,
          Matrix<Real> y);

/// Adds to dx; gradients of gain and bias are folds over the own rows.
template <class Real>
void norm_backward(const Pass<Real>& pass, Matrix<const Real> dy, const Tensors<Real>& grads,
                   int gain, const NormSaved<Real>& saved, Matrix<Real> dx);

}  // namespace zeroproof::workload
