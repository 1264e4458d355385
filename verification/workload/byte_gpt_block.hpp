#pragma once
// One transformer block: x = x + attention(layer_norm(x)), then x = x + mlp(layer_norm(x)).

#include "verification/workload/byte_gpt_attention.hpp"
#include "verification/workload/byte_gpt_layers.hpp"
#include "verification/workload/byte_gpt_tensors.hpp"

namespace zeroproof::workload {

/// What every layer of a pass needs.
template <class Real>
struct Pass {
  InstructionSet set;
  ByteGptShape shape;
  Tensors<const Real> params;
};

/// What one block keeps for its backward pass.
template <class Real>
struct BlockSaved {
  explicit BlockSaved(const ByteGptShape& shape)
      : attention_norm(shape.context, shape.width),
        attention_input(shape.context, shape.width),
        attention(shape),
        attention_result(shape.context, shape.width),
        mlp_norm(shape.context, shape.width),
        mlp_input(shape.context, shape.width),
        up(shape.context, shape.hidden),
        tanhs(shape.context, shape.hidden),
        activated(shape.context, shape.hidden) {}

  LayerNormSaved<Real> attention_norm;
  Buffer<Real> attention_input;  ///< [T, width], normalized with gain and bias
  AttentionSaved<Real> attention;
  Buffer<Real> attention_result;  ///< [T, width], before the output projection
  LayerNormSaved<Real> mlp_norm;
  Buffer<Real> mlp_input;  ///< [T, width]
  Buffer<Real> up;         ///< [T, hidden], before GELU
  Buffer<Real> tanhs;      ///< [T, hidden], the tanh inside GELU
  Buffer<Real> activated;  ///< [T, hidden], after GELU
};

/// x: [T, width], the residual stream, updated in place.
template <class Real>
void block_forward(const Pass<Real>& pass, int block, BlockSaved<Real>& saved, Matrix<Real> x);

/// dx: [T, width], d loss / d (output of the block) on entry, d loss / d (its input) on return.
template <class Real>
void block_backward(const Pass<Real>& pass, int block, const BlockSaved<Real>& saved,
                    const Tensors<Real>& grads, Matrix<Real> dx);

}  // namespace zeroproof::workload
