#include "verification/model/byte_gpt_ends.hpp"

#include <algorithm>
#include <vector>

#include "verification/model/byte_gpt_norm.hpp"

namespace zeroproof::workload {
namespace {

/// The `count` bytes from position `first` on: tokens, or targets with first + 1.
Span<const std::uint8_t> window(Span<const std::uint8_t> tokens, std::int64_t first,
                                std::int64_t count) {
  return tokens.subspan(first, count);
}

template <class Real>
Matrix<const Real> head_weight(const Pass<Real>& pass) {
  return pass.shape.tied ? pass.params.matrix(token_embedding).transposed()
                         : pass.params.matrix(head(pass.shape));
}

template <class Real>
void put(Real value, bool adds, Real& target) {
  target = adds ? target + value : value;
}

/// d loss / d embedding row = fold over the positions of its token. tokens: those of the rows of
/// dx.
template <class Real>
void token_embedding_backward(const BlockRange& rows, Span<const std::uint8_t> tokens,
                              Matrix<const Real> dx, bool adds, Matrix<Real> d_embedding) {
  for (std::int64_t token = 0; token < d_embedding.rows; ++token) {
    std::vector<std::int64_t> places;
    for (std::int64_t i = 0; i < dx.rows; ++i) {
      if (tokens[i] == token) places.push_back(i);
    }
    for (std::int64_t j = 0; j < dx.columns; ++j) {
      Real sums[sum_blocks] = {};
      int b = 0;
      for (const std::int64_t i : places) {
        while (i >= rows.local_begin(b + 1)) ++b;
        sums[b] += dx(i, j);
      }
      fused_fold(sums, rows.count);
      put(sums[0], adds, d_embedding(token, j));
    }
  }
}

}  // namespace

template <class Real>
void embeddings_forward(const Pass<Real>& pass, Span<const std::uint8_t> tokens, Matrix<Real> x) {
  const Matrix<const Real> embedding = pass.params.matrix(token_embedding);
  const Matrix<const Real> positions = pass.params.matrix(position_embedding);
  const std::int64_t first = pass.own_rows().begin();
  for (std::int64_t i = 0; i < x.rows; ++i) {
    const std::uint8_t token = tokens[first + i];
    for (std::int64_t j = 0; j < x.columns; ++j)
      x(i, j) = embedding(token, j) + positions(first + i, j);
  }
}

template <class Real>
void embeddings_backward(const Pass<Real>& pass, Span<const std::uint8_t> tokens,
                         Matrix<const Real> dx, const Tensors<Real>& grads, bool adds) {
  const BlockRange rows = pass.own_rows();
  token_embedding_backward<Real>(rows, window(tokens, rows.begin(), dx.rows), dx, adds,
                                 grads.matrix(token_embedding));
  const Matrix<Real> d_positions = grads.matrix(position_embedding);
  for (std::int64_t i = 0; i < d_positions.rows; ++i) {
    const bool own = i >= rows.begin() && i < rows.end();
    for (std::int64_t j = 0; j < dx.columns; ++j) {
      // A sum over positions of which at most one counts: it starts at +0 too (R18). A residual
      // stream whose gradient starts at +0 has no -0 here, so this changes no bit of a pass.
      put(own ? Real{0} + dx(i - rows.begin(), j) : Real{0}, adds, d_positions(i, j));
    }
  }
}

template <class Real>
void final_norm_forward(const Pass<Real>& pass, Matrix<const Real> x, HeadSaved<Real>& saved) {
  norm<Real>(pass, x, final_norm(pass.shape), saved.norm, saved.input.view());
}

template <class Real>
double head_forward(const Pass<Real>& pass, Span<const std::uint8_t> tokens,
                    HeadSaved<Real>& saved) {
  const BlockRange rows = pass.own_rows();
  const int weight = pass.shape.tied ? token_embedding : head(pass.shape);
  matmul(pass.set, pass.input(weight, saved.input.view()), head_weight(pass), saved.logits.view());
  const Span<const std::uint8_t> targets = window(tokens, rows.begin() + 1, rows.numel());
  const double partial =
      pass.shape.swiglu
          ? cross_entropy_loss(pass.set, rows, saved.logits.view(), targets, saved.totals)
          : cross_entropy<Real>(pass.set, rows, saved.logits.view(), targets);
  return fold_over_ranks(pass.place, partial) / static_cast<double>(pass.shape.context);
}

template <class Real>
void head_backward(const Pass<Real>& pass, Span<const std::uint8_t> tokens, Real loss_scale,
                   const Tensors<Real>& grads, HeadSaved<Real>& saved) {
  const BlockRange rows = pass.own_rows();
  const Matrix<Real> d_logits = saved.logits.view();
  const Matrix<Real> input = saved.input.view();
  const Span<const std::uint8_t> targets = window(tokens, rows.begin() + 1, rows.numel());
  if (pass.shape.swiglu) {
    cross_entropy_loss_backward(d_logits, targets, pass.shape.context, loss_scale, saved.totals);
  } else {
    cross_entropy_backward(d_logits, targets, pass.shape.context, loss_scale);
  }
  if (pass.shape.tied) {
    matmul(pass.set, d_logits.transposed(), input, grads.matrix(token_embedding), rows);
    const Matrix<Real> d_positions = grads.matrix(position_embedding);
    std::fill_n(d_positions.data, d_positions.rows * d_positions.columns, Real{0});
  } else {
    matmul(pass.set, input.transposed(), d_logits, grads.matrix(head(pass.shape)), rows);
  }
  matmul(pass.set, d_logits, head_weight(pass).transposed(), saved.d_input.view());
}

template <class Real>
void final_norm_backward(const Pass<Real>& pass, const Tensors<Real>& grads,
                         const HeadSaved<Real>& saved, Matrix<Real> dx) {
  norm_backward<Real>(pass, saved.d_input.view(), grads, final_norm(pass.shape), saved.norm, dx);
}

#define ZP_INSTANTIATE(Real)                                                                   \
  template void embeddings_forward(const Pass<Real>&, Span<const std::uint8_t>, Matrix<Real>); \
  template void embeddings_backward(const Pass<Real>&, Span<const std::uint8_t>,               \
                                    Matrix<const Real>, const Tensors<Real>&, bool);           \
  template void final_norm_forward(const Pass<Real>&, Matrix<const Real>, HeadSaved<Real>&);   \
  template double head_forward(const Pass<Real>&, Span<const std::uint8_t>, HeadSaved<Real>&); \
  template void head_backward(const Pass<Real>&, Span<const std::uint8_t>, Real,               \
                              const Tensors<Real>&, HeadSaved<Real>&);                         \
  template void final_norm_backward(const Pass<Real>&, const Tensors<Real>&,                   \
                                    const HeadSaved<Real>&, Matrix<Real>)

ZP_INSTANTIATE(float);
ZP_INSTANTIATE(double);
#undef ZP_INSTANTIATE

}  // namespace zeroproof::workload
