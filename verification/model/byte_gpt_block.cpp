#include "verification/model/byte_gpt_block.hpp"

#include "verification/model/byte_gpt_norm.hpp"
#include "verification/model/byte_gpt_operations.hpp"

namespace zeroproof::workload {
namespace {

template <class Real>
void add(Matrix<const Real> y, Matrix<Real> x) {
  for (std::int64_t i = 0; i < x.rows; ++i) {
    for (std::int64_t j = 0; j < x.columns; ++j) x.row(i)[j] += y.row(i)[j];
  }
}

/// input: [group rows, width] = norm(x)
template <class Real>
void norm_and_gather(const Pass<Real>& pass, Matrix<const Real> x, int gain, NormSaved<Real>& saved,
                     Matrix<Real> input) {
  norm<Real>(pass, x, gain, saved, pass.own(input));
  gather_rows(pass.place.groups.tp, pass.group_rows(), input);
}

/// Gates and linear parts of an MLP with swiglu.
template <class T>
Matrix<T> gates(Matrix<T> both) {
  return both.column_range(0, both.columns / 2);
}
template <class T>
Matrix<T> linear_parts(Matrix<T> both) {
  return both.column_range(both.columns / 2, both.columns / 2);
}

template <class Real>
void activate(const Pass<Real>& pass, int block, BlockSaved<Real>& saved) {
  const Matrix<const Real> input = saved.mlp_input.view();
  const Matrix<Real> up = saved.up.view();
  if (pass.shape.swiglu) {
    column_linear<Real>(pass, input, block_tensor(pass.shape, block, mlp_gate), gates(up));
    column_linear<Real>(pass, input, block_tensor(pass.shape, block, mlp_up), linear_parts(up));
    swiglu<Real>(up, saved.activated.view());
  } else {
    column_linear<Real>(pass, input, block_tensor(pass.shape, block, mlp_up), up);
    gelu<Real>(pass.set, up, saved.tanhs.view(), saved.activated.view());
  }
}

template <class Real>
void mlp_backward(const Pass<Real>& pass, int block, const BlockSaved<Real>& saved,
                  const Tensors<Real>& grads, Matrix<Real> dx) {
  const std::int64_t rows = pass.group_rows().numel();
  const std::int64_t hidden = pass.shape.hidden_of(block);
  Buffer<Real> d_hidden(rows, pass.place.slice(hidden).numel());
  Buffer<Real> d_input(rows, dx.columns);
  const auto backward = [&](Matrix<const Real> d_output, BlockTensor weight, Matrix<Real> partial) {
    return column_linear_backward<Real>(pass, saved.mlp_input.view(), d_output, grads,
                                        block_tensor(pass.shape, block, weight), hidden, partial);
  };
  row_linear_backward<Real>(pass, saved.activated.view(), dx, grads,
                            block_tensor(pass.shape, block, mlp_down), d_hidden.view());
  Matrix<Real> d_own;
  if (pass.shape.swiglu) {  // d input = by gate + by linear part
    Buffer<Real> d_both(rows, 2 * d_hidden.view().columns);
    Buffer<Real> part(rows, dx.columns);
    swiglu_backward<Real>(saved.up.view(), d_hidden.view(), d_both.view());
    d_own = backward(gates(d_both.view()), mlp_gate, d_input.view());
    add<Real>(backward(linear_parts(d_both.view()), mlp_up, part.view()), d_own);
  } else {
    gelu_backward<Real>(pass.set, saved.up.view(), saved.tanhs.view(), d_hidden.view());
    d_own = backward(d_hidden.view(), mlp_up, d_input.view());
  }
  norm_backward<Real>(pass, d_own, grads, block_tensor(pass.shape, block, mlp_norm), saved.mlp_norm,
                      dx);
}

template <class Real>
void attention_part_backward(const Pass<Real>& pass, int block, const BlockSaved<Real>& saved,
                             const Tensors<Real>& grads, Matrix<Real> dx) {
  const BlockRange rows = pass.group_rows();
  const std::int64_t columns = pass.place.slice(pass.shape.width).numel();
  Buffer<Real> d_result(rows.numel(), columns);
  Buffer<Real> d_query(rows.numel(), columns);
  Buffer<Real> d_key(pass.shape.context, columns);
  Buffer<Real> d_value(pass.shape.context, columns);
  row_linear_backward<Real>(pass, saved.attention_result.view(), dx, grads,
                            block_tensor(pass.shape, block, attention_output), d_result.view());
  attention_backward<Real>(pass, saved.attention, d_result.view(), d_query.view(), d_key.view(),
                           d_value.view());
  // d input = (by query + by key) + by value
  Buffer<Real> d_input(rows.numel(), dx.columns);
  Buffer<Real> part(rows.numel(), dx.columns);
  const auto backward = [&](Matrix<const Real> d_output, BlockTensor weight, Matrix<Real> partial) {
    return column_linear_backward<Real>(pass, saved.attention_input.view(), d_output, grads,
                                        block_tensor(pass.shape, block, weight), pass.shape.width,
                                        partial);
  };
  const Matrix<Real> d_own = backward(d_query.view(), query, d_input.view());
  add<Real>(backward(d_key.view().row_range(rows.begin(), rows.numel()), key, part.view()), d_own);
  add<Real>(backward(d_value.view().row_range(rows.begin(), rows.numel()), value, part.view()),
            d_own);
  norm_backward<Real>(pass, d_own, grads, block_tensor(pass.shape, block, attention_norm),
                      saved.attention_norm, dx);
}

}  // namespace

template <class Real>
void block_forward(const Pass<Real>& pass, int block, BlockSaved<Real>& saved, Matrix<Real> x) {
  const BlockRange rows = pass.group_rows();
  Buffer<Real> branch(rows.numel(), x.columns);
  const Matrix<Real> input = saved.attention_input.view();
  const auto tensor = [&](BlockTensor which) { return block_tensor(pass.shape, block, which); };
  norm_and_gather<Real>(pass, x, tensor(attention_norm), saved.attention_norm, input);
  const auto project = [&](BlockTensor weight, Matrix<Real> to) {
    column_linear<Real>(pass, input, tensor(weight), to);
  };
  project(query, saved.attention.query.view());
  project(key, saved.attention.key.view().row_range(rows.begin(), rows.numel()));
  project(value, saved.attention.value.view().row_range(rows.begin(), rows.numel()));
  attention<Real>(pass, saved.attention, saved.attention_result.view());
  add<Real>(row_linear<Real>(pass, saved.attention_result.view(), tensor(attention_output),
                             pass.shape.width, branch.view()),
            x);

  norm_and_gather<Real>(pass, x, tensor(mlp_norm), saved.mlp_norm, saved.mlp_input.view());
  activate<Real>(pass, block, saved);
  add<Real>(row_linear<Real>(pass, saved.activated.view(), tensor(mlp_down),
                             pass.shape.hidden_of(block), branch.view()),
            x);
}

template <class Real>
void block_backward(const Pass<Real>& pass, int block, const BlockSaved<Real>& saved,
                    const Tensors<Real>& grads, Matrix<Real> dx) {
  mlp_backward(pass, block, saved, grads, dx);
  attention_part_backward(pass, block, saved, grads, dx);
}

#define ZP_INSTANTIATE(Real)                                                            \
  template void block_forward(const Pass<Real>&, int, BlockSaved<Real>&, Matrix<Real>); \
  template void block_backward(const Pass<Real>&, int, const BlockSaved<Real>&,         \
                               const Tensors<Real>&, Matrix<Real>)

ZP_INSTANTIATE(float);
ZP_INSTANTIATE(double);
#undef ZP_INSTANTIATE

}  // namespace zeroproof::workload
