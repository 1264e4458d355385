#include "verification/workload/byte_gpt.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "verification/workload/blocked_sum.hpp"
#include "verification/workload/byte_gpt_block.hpp"
#include "verification/workload/byte_gpt_layers.hpp"
#include "verification/workload/byte_gpt_tensors.hpp"

namespace zeroproof::workload {
namespace {

/// Everything between the tokens and the loss.
template <class Real>
struct Activations {
  explicit Activations(const ByteGptShape& shape)
      : blocks(static_cast<std::size_t>(shape.layers), BlockSaved<Real>(shape)),
        norm(shape.context, shape.width),
        head_input(shape.context, shape.width),
        logits(shape.context, vocabulary) {}

  std::vector<BlockSaved<Real>> blocks;
  LayerNormSaved<Real> norm;
  Buffer<Real> head_input;  ///< [T, width]
  Buffer<Real> logits;      ///< [T, vocabulary], probabilities once the loss is known
};

template <class Real>
double forward(const Pass<Real>& pass, Span<const std::uint8_t> tokens, Activations<Real>& activations) {
  const ByteGptShape& shape = pass.shape;
  Buffer<Real> residual(shape.context, shape.width);
  const Matrix<Real> x = residual.view();
  const Matrix<const Real> embedding = pass.params.matrix(token_embedding);
  const Matrix<const Real> positions = pass.params.matrix(position_embedding);
  for (std::int64_t i = 0; i < x.rows; ++i) {
    const std::uint8_t token = tokens[static_cast<std::size_t>(i)];
    for (std::int64_t j = 0; j < x.columns; ++j) x(i, j) = embedding(token, j) + positions(i, j);
  }
  for (int block = 0; block < shape.layers; ++block) {
    block_forward(pass, block, activations.blocks[static_cast<std::size_t>(block)], x);
  }
  layer_norm<Real>(x, pass.params, final_norm(shape), activations.norm, activations.head_input.view());
  matmul(pass.set, activations.head_input.view(), pass.params.matrix(head(shape)), activations.logits.view());
  return cross_entropy<Real>(pass.set, activations.logits.view(), tokens.subspan(1));
}

/// d loss / d embedding row = blocked sum over the positions that hold its token, +0 if there are none.
template <class Real>
void token_embedding_backward(Matrix<const Real> dx, Span<const std::uint8_t> tokens,
                              Matrix<Real> d_embedding) {
  for (std::int64_t token = 0; token < d_embedding.rows; ++token) {
    std::vector<std::int64_t> positions;
    for (std::int64_t i = 0; i < dx.rows; ++i) {
      if (tokens[static_cast<std::size_t>(i)] == token) positions.push_back(i);
    }
    for (std::int64_t j = 0; j < dx.columns; ++j) {
      Real sums[sum_blocks] = {};
      int b = 0;
      for (const std::int64_t i : positions) {
        while (i >= block_begin(dx.rows, b + 1)) ++b;
        sums[b] += dx(i, j);
      }
      d_embedding(token, j) =
          fold_blocks(sums[0], sums[1], sums[2], sums[3], sums[4], sums[5], sums[6], sums[7]);
    }
  }
}

template <class Real>
void backward(const Pass<Real>& pass, Span<const std::uint8_t> tokens, Real loss_scale,
              Activations<Real>& activations, const Tensors<Real>& grads) {
  const ByteGptShape& shape = pass.shape;
  const Matrix<Real> d_logits = activations.logits.view();
  cross_entropy_backward(d_logits, tokens.subspan(1), loss_scale);

  Buffer<Real> d_head_input(shape.context, shape.width);
  matmul(pass.set, activations.head_input.view().transposed(), d_logits, grads.matrix(head(shape)));
  matmul(pass.set, d_logits, pass.params.matrix(head(shape)).transposed(), d_head_input.view());

  Buffer<Real> d_residual(shape.context, shape.width);  // starts at +0: nothing but the norm reads the last x
  const Matrix<Real> dx = d_residual.view();
  layer_norm_backward<Real>(d_head_input.view(), pass.params, grads, final_norm(shape), activations.norm, dx);
  for (int block = shape.layers - 1; block >= 0; --block) {
    block_backward(pass, block, activations.blocks[static_cast<std::size_t>(block)], grads, dx);
  }
  token_embedding_backward<Real>(dx, tokens, grads.matrix(token_embedding));
  const Matrix<Real> d_positions = grads.matrix(position_embedding);
  std::fill_n(std::copy_n(dx.data, dx.rows * dx.columns, d_positions.data),
              (d_positions.rows - dx.rows) * dx.columns, Real{0});
}

/// The shape with as many positions as this micro-batch fills.
ByteGptShape filled(ByteGptShape shape, Span<const std::uint8_t> tokens) {
  ZP_CHECK(numel(tokens) >= 2 && numel(tokens) <= shape.context + 1, ErrorCode::invalid_argument,
           "a micro-batch has " + std::to_string(tokens.size()) + " tokens but the model takes 2 to " +
               std::to_string(shape.context + 1),
           "each position predicts the byte after it", "pass at most context + 1 bytes");
  shape.context = static_cast<int>(numel(tokens)) - 1;
  return shape;
}

}  // namespace

template <class Real>
double byte_gpt_loss_and_grad(const ByteGptShape& shape, const FlatLayout& layout,
                              Span<const Real> flat_params, Span<const std::uint8_t> tokens, Real loss_scale,
                              Span<Real> flat_grad, InstructionSet set) {
  check_layout(shape, layout, numel(flat_params));
  check_layout(shape, layout, numel(flat_grad));
  const ByteGptShape used = filled(shape, tokens);
  const Pass<Real> pass{set, used, Tensors<const Real>(layout, flat_params)};
  Activations<Real> activations(used);
  const double loss = forward(pass, tokens, activations);
  backward(pass, tokens, loss_scale, activations, Tensors<Real>(layout, flat_grad));
  return loss;
}

template <class Real>
double byte_gpt_loss(const ByteGptShape& shape, const FlatLayout& layout, Span<const Real> flat_params,
                     Span<const std::uint8_t> tokens, InstructionSet set) {
  check_layout(shape, layout, numel(flat_params));
  const ByteGptShape used = filled(shape, tokens);
  Activations<Real> activations(used);
  return forward(Pass<Real>{set, used, Tensors<const Real>(layout, flat_params)}, tokens, activations);
}

#define ZP_INSTANTIATE(Real)                                                                          \
  template double byte_gpt_loss_and_grad(const ByteGptShape&, const FlatLayout&, Span<const Real>,    \
                                         Span<const std::uint8_t>, Real, Span<Real>, InstructionSet); \
  template double byte_gpt_loss(const ByteGptShape&, const FlatLayout&, Span<const Real>,             \
                                Span<const std::uint8_t>, InstructionSet)

ZP_INSTANTIATE(float);
ZP_INSTANTIATE(double);

}  // namespace zeroproof::workload
