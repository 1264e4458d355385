#pragma once
// A byte-level decoder-only transformer: gradients of real text, for comparisons of optimizers.
//
//   x = token_embedding[byte] + position_embedding[position]
//   for each block:  x = x + attention(norm(x));  x = x + mlp(norm(x))
//   logits = norm(x) * head;  loss = mean cross-entropy of the next byte
//
// Causal multi-head attention; norms are layer norms, the MLP has GELU in its tanh form; biases
// everywhere except in the head; weights are [inputs, outputs]. A shape with swiglu has RMS norms,
// which have a gain and no bias, and an MLP of swiglu(x gate, x up) down; its norms, swiglu,
// softmax and cross-entropy are operations of the contract. The gradient of a micro-batch depends
// on parameters, tokens and loss scale only (R18): every sum over width, heads, vocabulary or
// sequence is a blocked sum, and every operation written in these files rounds once.

#include <cstdint>
#include <vector>

#include "common/base/span.hpp"
#include "common/layout/flat_layout.hpp"
#include "verification/model/instruction_set.hpp"

namespace zeroproof::workload {

/// Bytes are the vocabulary.
inline constexpr int vocabulary = 256;

struct ByteGptShape {
  int layers = 1;  ///< blocks
  int width = 1;   ///< of the residual stream, divisible by heads
  int heads = 1;
  int hidden = 1;   ///< width of the MLP
  int context = 1;  ///< positions of one micro-batch
  /// The head's weight is the token embedding transposed. Its gradient is the sum of both uses: the
  /// head's sum over positions plus the lookup's, one addition per element.
  bool tied = false;
  /// RMS norms and an MLP with a gate of as many hidden units, by operations of the contract (R23).
  bool swiglu = false;
  int first_hidden = 0;  ///< width of the MLP of block 0; 0: as the others

  int hidden_of(int block) const { return block == 0 && first_hidden > 0 ? first_hidden : hidden; }
};

/// 973,488 parameters; 16 micro-batches are about 6.5 GFLOP.
inline constexpr ByteGptShape byte_gpt_main{4, 136, 4, 544, 64};

/// 12,269 parameters in tensors of odd extents, none a multiple of a vector: for tests.
inline constexpr ByteGptShape byte_gpt_tiny{2, 15, 3, 37, 13};

/// 968,616 parameters: three matrices of an MLP with the elements of two.
inline constexpr ByteGptShape byte_gpt_swiglu_main{4, 136, 4, 360, 64, false, true};

/// 12,250 parameters in tensors of odd extents.
inline constexpr ByteGptShape byte_gpt_swiglu_tiny{2, 15, 3, 25, 13, false, true};

/// 162,749 parameters in 277 tensors: more than a word of bits (64) or a block of threads (256)
/// has. 16 of them have one element, and two have 72,006: more than a piece of a step on a device
/// (65,536) or a block of the host (16,384).
inline constexpr ByteGptShape byte_gpt_uneven{17, 6, 2, 1, 13, false, false, 12001};

/// For process grids: odd extents split by 4 heads, positions that 8 blocks share unevenly.
inline constexpr ByteGptShape byte_gpt_grid_shape{2, 20, 4, 37, 13};
/// The same with 8 heads.
inline constexpr ByteGptShape byte_gpt_grid_shape8{2, 24, 8, 37, 13};

/// The tensors in registration order, named like "block0.attention.query.weight".
/// Errors: invalid_argument if an extent is below 1 (or above 2^20) or width is not divisible by
/// heads.
std::vector<ParamSpec> byte_gpt_params(const ByteGptShape& shape);

/// Initial parameters: standard deviation 0.2 for embeddings and 0.02 for the other weights and a
/// tied embedding, divided by sqrt(2 layers) for the two projections that add to the residual
/// stream; gains 1; biases 0. Element i of weight tensor k is a multiple of Philox(seed, 256 +
/// k).bell(i).
///
/// Shapes   flat: [padded_numel]; padding is not written.
/// Errors   as byte_gpt_params, and if the layout is not that of byte_gpt_params(shape) or flat has
///          another length.
void init_parameters(const ByteGptShape& shape, const FlatLayout& layout, std::uint64_t seed,
                     Span<float> flat);

/// Mean cross-entropy over the positions of one micro-batch, in nats, and its gradient times
/// loss_scale.
///
/// Shapes   flat_params, flat_grad: [padded_numel], must not overlap; tokens: [2 to context + 1],
///          byte i + 1 is the target of position i. Every element of every tensor of flat_grad is
///          written; padding is neither read nor written.
/// Units    the returned loss is unscaled; flat_grad is loss_scale * d loss / d parameter. The
///          scale multiplies d loss / d logits, so a power of two only changes exponents (unless
///          something over- or underflows).
/// Exact    the same bits for every instruction set, thread and machine. Real is float or double.
///          No shared state: any number of threads may call at once.
/// Special  NaN and infinity propagate.
/// Errors   Error(invalid_argument) as init_parameters, and if there are fewer than 2 or more than
///          context + 1 tokens.
template <class Real>
double byte_gpt_loss_and_grad(const ByteGptShape& shape, const FlatLayout& layout,
                              Span<const Real> flat_params, Span<const std::uint8_t> tokens,
                              Real loss_scale, Span<Real> flat_grad,
                              InstructionSet set = best_instruction_set());

/// The loss alone, with the bits of byte_gpt_loss_and_grad.
template <class Real>
double byte_gpt_loss(const ByteGptShape& shape, const FlatLayout& layout,
                     Span<const Real> flat_params, Span<const std::uint8_t> tokens,
                     InstructionSet set = best_instruction_set());

}  // namespace zeroproof::workload
