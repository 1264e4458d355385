#include "verification/workload/byte_gpt_block.hpp"

namespace zeroproof::workload {
namespace {

template <class Real>
void add(Matrix<const Real> y, Matrix<Real> x) {
  for (std::int64_t i = 0; i < x.rows; ++i) {
    for (std::int64_t j = 0; j < x.columns; ++j) x.row(i)[j] += y.row(i)[j];
  }
}

template <class Real>
void mlp_backward(const Pass<Real>& pass, int block, const BlockSaved<Real>& saved,
                  const Tensors<Real>& grads, Matrix<Real> dx) {
  Buffer<Real> d_hidden(dx.rows, pass.shape.hidden);
  Buffer<Real> d_input(dx.rows, dx.columns);
  linear_backward<Real>(pass.set, saved.activated.view(), dx, pass.params, grads,
                        block_tensor(block, mlp_down), d_hidden.view());
  gelu_backward<Real>(pass.set, saved.up.view(), saved.tanhs.view(), d_hidden.view());
  linear_backward<Real>(pass.set, saved.mlp_input.view(), d_hidden.view(), pass.params, grads,
                        block_tensor(block, mlp_up), d_input.view());
  layer_norm_backward<Real>(d_input.view(), pass.params, grads, block_tensor(block, mlp_norm), saved.mlp_norm,
                            dx);
}

template <class Real>
void attention_part_backward(const Pass<Real>& pass, int block, const BlockSaved<Real>& saved,
                             const Tensors<Real>& grads, Matrix<Real> dx) {
  Buffer<Real> d_result(dx.rows, dx.columns);
  Buffer<Real> d_query(dx.rows, dx.columns);
  Buffer<Real> d_key(dx.rows, dx.columns);
  Buffer<Real> d_value(dx.rows, dx.columns);
  linear_backward<Real>(pass.set, saved.attention_result.view(), dx, pass.params, grads,
                        block_tensor(block, attention_output), d_result.view());
  attention_backward<Real>(pass.set, pass.shape, saved.attention, d_result.view(), d_query.view(),
                           d_key.view(), d_value.view());
  // d input = (by query + by key) + by value
  Buffer<Real> d_input(dx.rows, dx.columns);
  Buffer<Real> part(dx.rows, dx.columns);
  const Matrix<const Real> input = saved.attention_input.view();
  linear_backward<Real>(pass.set, input, d_query.view(), pass.params, grads, block_tensor(block, query),
                        d_input.view());
  linear_backward<Real>(pass.set, input, d_key.view(), pass.params, grads, block_tensor(block, key),
                        part.view());
  add<Real>(part.view(), d_input.view());
  linear_backward<Real>(pass.set, input, d_value.view(), pass.params, grads, block_tensor(block, value),
                        part.view());
  add<Real>(part.view(), d_input.view());
  layer_norm_backward<Real>(d_input.view(), pass.params, grads, block_tensor(block, attention_norm),
                            saved.attention_norm, dx);
}

}  // namespace

template <class Real>
void block_forward(const Pass<Real>& pass, int block, BlockSaved<Real>& saved, Matrix<Real> x) {
  Buffer<Real> branch(x.rows, x.columns);
  const auto project = [&](Matrix<const Real> from, BlockTensor weight, Matrix<Real> to) {
    linear<Real>(pass.set, from, pass.params, block_tensor(block, weight), to);
  };

  const Matrix<Real> input = saved.attention_input.view();
  layer_norm<Real>(x, pass.params, block_tensor(block, attention_norm), saved.attention_norm, input);
  project(input, query, saved.attention.query.view());
  project(input, key, saved.attention.key.view());
  project(input, value, saved.attention.value.view());
  attention<Real>(pass.set, pass.shape, saved.attention, saved.attention_result.view());
  project(saved.attention_result.view(), attention_output, branch.view());
  add<Real>(branch.view(), x);

  layer_norm<Real>(x, pass.params, block_tensor(block, mlp_norm), saved.mlp_norm, saved.mlp_input.view());
  project(saved.mlp_input.view(), mlp_up, saved.up.view());
  gelu<Real>(pass.set, saved.up.view(), saved.tanhs.view(), saved.activated.view());
  project(saved.activated.view(), mlp_down, branch.view());
  add<Real>(branch.view(), x);
}

template <class Real>
void block_backward(const Pass<Real>& pass, int block, const BlockSaved<Real>& saved,
                    const Tensors<Real>& grads, Matrix<Real> dx) {
  mlp_backward(pass, block, saved, grads, dx);
  attention_part_backward(pass, block, saved, grads, dx);
}

#define ZP_INSTANTIATE(Real)                                                                          \
  template void block_forward(const Pass<Real>&, int, BlockSaved<Real>&, Matrix<Real>);               \
  template void block_backward(const Pass<Real>&, int, const BlockSaved<Real>&, const Tensors<Real>&, \
                               Matrix<Real>)

ZP_INSTANTIATE(float);
ZP_INSTANTIATE(double);

}  // namespace zeroproof::workload
