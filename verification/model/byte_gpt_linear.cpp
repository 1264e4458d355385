#include "verification/model/byte_gpt_linear.hpp"

#include <algorithm>

namespace zeroproof::workload {

template <class Real>
void column_linear(const Pass<Real>& pass, Matrix<const Real> x, int weight, Matrix<Real> y) {
  matmul(pass.set, pass.input(weight, x), pass.params.matrix(weight), y);
  add_bias(pass.params.vector(weight + 1), y);
}

template <class Real>
Matrix<Real> column_linear_backward(const Pass<Real>& pass, Matrix<const Real> x,
                                    Matrix<const Real> dy, const Tensors<Real>& grads, int weight,
                                    std::int64_t outputs, Matrix<Real> partial) {
  matmul(pass.set, x.transposed(), dy, grads.matrix(weight), pass.group_rows());
  column_sums<Real>(pass.group_rows(), dy, grads.vector(weight + 1));
  matmul(pass.set, dy, pass.params.matrix(weight).transposed(), partial, pass.place.slice(outputs));
  return fold_rows(pass.place.groups.tp, pass.group_rows(), partial);
}

template <class Real>
Matrix<Real> row_linear(const Pass<Real>& pass, Matrix<const Real> x, int weight,
                        std::int64_t inputs, Matrix<Real> partial) {
  matmul(pass.set, pass.input(weight, x), pass.params.matrix(weight), partial,
         pass.place.slice(inputs));
  const Matrix<Real> y = fold_rows(pass.place.groups.tp, pass.group_rows(), partial);
  add_bias(pass.params.vector(weight + 1), y);
  return y;
}

template <class Real>
void row_linear_backward(const Pass<Real>& pass, Matrix<const Real> x, Matrix<const Real> dy,
                         const Tensors<Real>& grads, int weight, Matrix<Real> dx) {
  Buffer<Real> gathered(x.rows, dy.columns);
  std::copy_n(dy.data, dy.rows * dy.columns, pass.own(gathered.view()).data);
  gather_rows(pass.place.groups.tp, pass.group_rows(), gathered.view());
  const Matrix<const Real> all = gathered.view();
  matmul(pass.set, x.transposed(), all, grads.matrix(weight), pass.group_rows());
  column_sums<Real>(pass.own_rows(), dy, grads.vector(weight + 1));
  matmul(pass.set, all, pass.params.matrix(weight).transposed(), dx);
}

#define ZP_INSTANTIATE(Real)                                                                   \
  template void column_linear(const Pass<Real>&, Matrix<const Real>, int, Matrix<Real>);       \
  template Matrix<Real> column_linear_backward(const Pass<Real>&, Matrix<const Real>,          \
                                               Matrix<const Real>, const Tensors<Real>&, int,  \
                                               std::int64_t, Matrix<Real>);                    \
  template Matrix<Real> row_linear(const Pass<Real>&, Matrix<const Real>, int, std::int64_t,   \
                                   Matrix<Real>);                                              \
  template void row_linear_backward(const Pass<Real>&, Matrix<const Real>, Matrix<const Real>, \
                                    const Tensors<Real>&, int, Matrix<Real>)

ZP_INSTANTIATE(float);
ZP_INSTANTIATE(double);
#undef ZP_INSTANTIATE

}  // namespace zeroproof::workload
