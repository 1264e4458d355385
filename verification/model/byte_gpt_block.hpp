#pragma once
// One transformer block: x = x + attention(norm(x)), then x = x + mlp(norm(x)).
//
// Residual stream and norms have the rank's own rows. Normalized rows are gathered over the TP
// group before layers split by columns; results of layers split by rows are folded, and each rank
// keeps its own rows.

#include "verification/model/byte_gpt_attention.hpp"
#include "verification/model/byte_gpt_layers.hpp"
#include "verification/model/byte_gpt_linear.hpp"

namespace zeroproof::workload {

/// Values that one block stores for its backward pass. "rows" are those of the TP group.
template <class Real>
struct BlockSaved {
  BlockSaved(const Pass<Real>& pass, int block)
      : BlockSaved(pass, pass.own_rows().numel(), pass.group_rows().numel(),
                   pass.place.slice(pass.shape.width).numel(),
                   pass.place.slice(pass.shape.hidden_of(block)).numel()) {}

  NormSaved<Real> attention_norm;
  Buffer<Real> attention_input;  ///< [rows, width], after the norm
  AttentionSaved<Real> attention;
  Buffer<Real> attention_result;  ///< [rows, its columns], before the output projection
  NormSaved<Real> mlp_norm;
  Buffer<Real> mlp_input;  ///< [rows, width]
  Buffer<Real>
      up;  ///< [rows, its hidden], before GELU; with swiglu [rows, 2 * its hidden], gates first
  Buffer<Real> tanhs;      ///< [rows, its hidden], the tanh inside GELU; empty with swiglu
  Buffer<Real> activated;  ///< [rows, its hidden], after GELU or swiglu

 private:
  BlockSaved(const Pass<Real>& pass, std::int64_t own, std::int64_t rows, std::int64_t columns,
             std::int64_t hidden)
      : attention_norm(own, pass.shape.width),
        attention_input(rows, pass.shape.width),
        attention(pass),
        attention_result(rows, columns),
        mlp_norm(own, pass.shape.width),
        mlp_input(rows, pass.shape.width),
        up(rows, pass.shape.swiglu ? 2 * hidden : hidden),
        tanhs(rows, pass.shape.swiglu ? 0 : hidden),
        activated(rows, hidden) {}
};

/// x: [own rows, width], the residual stream, updated in place.
template <class Real>
void block_forward(const Pass<Real>& pass, int block, BlockSaved<Real>& saved, Matrix<Real> x);

/// dx: [own rows, width], d loss / d (output of the block) on entry, d loss / d (its input) on
/// return.
template <class Real>
void block_backward(const Pass<Real>& pass, int block, const BlockSaved<Real>& saved,
                    const Tensors<Real>& grads, Matrix<Real> dx);

}  // namespace zeroproof::workload
