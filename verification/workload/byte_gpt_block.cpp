#include "verification/workload/byte_gpt_block.hpp"

namespace zeroproof::workload {
namespace {

template <class Real>
void add(Matrix<const Real> y, Matrix<Real> x) {
  for (std::int64_t i = 0; i < x.rows; ++i) {
    for (std::int64_t j = 0; j < x.columns; ++j) x.row(i)[j] += y.row(i)[j];
  }
}

/// input: [group rows, width] = layer_norm(x)
template <class Real>
void norm_and_gather(const Pass<Real>& pass, Matrix<const Real> x, int gain, LayerNormSaved<Real>& saved,
                     Matrix<Real> input) {
  layer_norm<Real>(x, pass.params, gain, saved, pass.own(input));
  gather_rows(pass.place.groups.tp, pass.group_rows(), input);
}

template <class Real>
void mlp_backward(const Pass<Real>& pass, int block, const BlockSaved<Real>& saved,
                  const Tensors<Real>& grads, Matrix<Real> dx) {
  const std::int64_t rows = pass.group_rows().numel();
  Buffer<Real> d_hidden(rows, pass.place.slice(pass.shape.hidden).numel());
  Buffer<Real> d_input(rows, dx.columns);
  row_linear_backward<Real>(pass, saved.activated.view(), dx, grads, block_tensor(block, mlp_down),
                            d_hidden.view());
  gelu_backward<Real>(pass.set, saved.up.view(), saved.tanhs.view(), d_hidden.view());
  const Matrix<Real> d_own =
      column_linear_backward<Real>(pass, saved.mlp_input.view(), d_hidden.view(), grads,
                                   block_tensor(block, mlp_up), pass.shape.hidden, d_input.view());
  layer_norm_backward<Real>(pass.own_rows(), d_own, pass.params, grads, block_tensor(block, mlp_norm),
                            saved.mlp_norm, dx);
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
                            block_tensor(block, attention_output), d_result.view());
  attention_backward<Real>(pass, saved.attention, d_result.view(), d_query.view(), d_key.view(),
                           d_value.view());
  // d input = (by query + by key) + by value
  Buffer<Real> d_input(rows.numel(), dx.columns);
  Buffer<Real> part(rows.numel(), dx.columns);
  const auto backward = [&](Matrix<const Real> d_output, BlockTensor weight, Matrix<Real> partial) {
    return column_linear_backward<Real>(pass, saved.attention_input.view(), d_output, grads,
                                        block_tensor(block, weight), pass.shape.width, partial);
  };
  const Matrix<Real> d_own = backward(d_query.view(), query, d_input.view());
  add<Real>(backward(d_key.view().row_range(rows.begin(), rows.numel()), key, part.view()), d_own);
  add<Real>(backward(d_value.view().row_range(rows.begin(), rows.numel()), value, part.view()), d_own);
  layer_norm_backward<Real>(pass.own_rows(), d_own, pass.params, grads, block_tensor(block, attention_norm),
                            saved.attention_norm, dx);
}

}  // namespace

template <class Real>
void block_forward(const Pass<Real>& pass, int block, BlockSaved<Real>& saved, Matrix<Real> x) {
  const BlockRange rows = pass.group_rows();
  Buffer<Real> branch(rows.numel(), x.columns);
  const Matrix<Real> input = saved.attention_input.view();
  norm_and_gather<Real>(pass, x, block_tensor(block, attention_norm), saved.attention_norm, input);
  const auto project = [&](BlockTensor weight, Matrix<Real> to) {
    column_linear<Real>(pass, input, block_tensor(block, weight), to);
  };
  project(query, saved.attention.query.view());
  project(key, saved.attention.key.view().row_range(rows.begin(), rows.numel()));
  project(value, saved.attention.value.view().row_range(rows.begin(), rows.numel()));
  attention<Real>(pass, saved.attention, saved.attention_result.view());
  add<Real>(row_linear<Real>(pass, saved.attention_result.view(), block_tensor(block, attention_output),
                             pass.shape.width, branch.view()),
            x);

  const Matrix<Real> mlp_input = saved.mlp_input.view();
  norm_and_gather<Real>(pass, x, block_tensor(block, mlp_norm), saved.mlp_norm, mlp_input);
  column_linear<Real>(pass, mlp_input, block_tensor(block, mlp_up), saved.up.view());
  gelu<Real>(pass.set, saved.up.view(), saved.tanhs.view(), saved.activated.view());
  add<Real>(row_linear<Real>(pass, saved.activated.view(), block_tensor(block, mlp_down), pass.shape.hidden,
                             branch.view()),
            x);
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
#undef ZP_INSTANTIATE

}  // namespace zeroproof::workload
