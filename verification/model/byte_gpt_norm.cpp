#include "verification/model/byte_gpt_norm.hpp"

#include "verification/model/byte_gpt_operations.hpp"

namespace zeroproof::workload {

template <class Real>
void norm(const Pass<Real>& pass, Matrix<const Real> x, int gain, NormSaved<Real>& saved,
          Matrix<Real> y) {
  if (pass.shape.swiglu) {
    rms_norm<Real>(x, pass.params, gain, saved, y);
  } else {
    layer_norm<Real>(x, pass.params, gain, saved, y);
  }
}

template <class Real>
void norm_backward(const Pass<Real>& pass, Matrix<const Real> dy, const Tensors<Real>& grads,
                   int gain, const NormSaved<Real>& saved, Matrix<Real> dx) {
  if (pass.shape.swiglu) {
    rms_norm_backward<Real>(pass.own_rows(), dy, pass.params, grads, gain, saved, dx);
  } else {
    layer_norm_backward<Real>(pass.own_rows(), dy, pass.params, grads, gain, saved, dx);
  }
}

#define ZP_INSTANTIATE(Real)                                                                      \
  template void norm(const Pass<Real>&, Matrix<const Real>, int, NormSaved<Real>&, Matrix<Real>); \
  template void norm_backward(const Pass<Real>&, Matrix<const Real>, const Tensors<Real>&, int,   \
                              const NormSaved<Real>&, Matrix<Real>)

ZP_INSTANTIATE(float);
ZP_INSTANTIATE(double);
#undef ZP_INSTANTIATE

}  // namespace zeroproof::workload
