#pragma once
// The loops of matrix products (R27) and of the rule muon (R28) over raw memory, compiled once per
// instruction set like those of kernels.hpp and, for the same reason, with plain pointers only.

#include <cstdint>

#include "common/base/exec.hpp"

namespace zeroproof::cuda::host {

/// A factor of a product: element (i, q) is data[i * row_step + q * inner_step], and one of the steps is 1.
struct MatrixFactor {
  const float* data = nullptr;
  std::int64_t row_step = 0;
  std::int64_t inner_step = 1;
  std::int64_t rows = 0;
};

/// What becomes of an element P of a product, one rounding per operation: t = R(P); v = R(factor * t);
/// w = R(addend_factor * addend); Q(w + v), where R is the cast to bf16 with rounds_each, and Q with rounds_last.
/// Without an addend Q(P). A factor of 1 changes no bit.
struct ProductEnd {
  float factor = 1.0F;
  float addend_factor = 1.0F;
  const float* addend = nullptr;  ///< null, or [rows, columns]
  bool rounds_each = false;
  bool rounds_last = false;
};

/// Terms of a product: those of `count` blocks of R18 from block `first` on, of `extent` terms in all. count is a power
/// of two, and first a multiple of it, so that the fold of these blocks is a node of R18's tree.
struct InnerBlocks {
  std::int64_t extent = 0;
  int first = 0, count = 8;

  /// Begin of the b-th of them, from the first term on; all terms for b = count.
  std::int64_t begin(int b) const { return extent * (first + b) / 8 - extent * first / 8; }
  std::int64_t terms() const { return begin(count); }
};

/// Elements of a panel. A word is 32 bits.
enum class PanelForm : std::uint8_t {
  plain,    ///< an element in a word
  rounded,  ///< the same, cast to bf16 and widened
  pairs     ///< two elements in a word, cast to bf16, the first one in the upper half
};

/// Words of the b-th block. A pair does not cross its end: the last one may have +0 as its second element. Static: the
/// linker must not take the code of another instruction set.
static inline std::int64_t block_words(const InnerBlocks& inner, int b, PanelForm form) {
  const std::int64_t terms = inner.begin(b + 1) - inner.begin(b);
  return form == PanelForm::pairs ? (terms + 1) / 2 : terms;
}

/// A rectangle of a product. Its first row and column begin a panel.
struct ProductBlock {
  const float* left = nullptr;   ///< panels of rows, [panel][words][tile_rows]
  const float* right = nullptr;  ///< panels of columns, [panel][words][tile_columns]
  InnerBlocks inner;
  PanelForm form = PanelForm::plain;
  std::int64_t words = 0;  ///< of all blocks
  std::int64_t first_row = 0, end_row = 0;
  std::int64_t first_column = 0, end_column = 0;
  bool symmetric = false;  ///< elements (i, j) with i >= j are computed and stored at (j, i) too
  float* product = nullptr;
  std::int64_t columns = 0;  ///< of the product
  float* partials =
      nullptr;  ///< scratch: product_slots * tile_rows * tile_columns floats for every tile of the block
};

/// Values kept for an element between the 8 blocks of R18: partial folds of 1, 2 and 4 blocks, and the chain of the
/// present one.
inline constexpr int product_slots = 4;

struct MatrixKernels {
  std::int64_t tile_rows, tile_columns;  ///< lanes of a panel of the left, of the right factor
  /// Null, or whether products of this processor take PanelForm::pairs and give the bits of R27.
  bool (*has_pairs)();
  /// Packs the panel of `lanes` rows from first_row on, [words][lanes]. Lanes past the last row are +0. Returns whether
  /// `pairs` has the bits of R27: no element is smaller than 2^-56, or all that are, are 0. Elements of bf16 are then
  /// multiples of 2^-63, their products and all sums of those of 2^-126, so none is subnormal and no sum is -0.
  bool (*pack)(const MatrixFactor& factor, std::int64_t first_row, std::int64_t lanes,
               const InnerBlocks& inner, PanelForm form, float* panel);
  void (*product_block)(const ProductBlock& block, const ProductEnd& end);

  /// target[i] = factor * source[i], with `rounds` cast to bf16 and widened. target may be source.
  void (*scale)(float factor, const float* source, float* target, bool rounds, std::int64_t numel);
  /// target[i] = source[i] / divisor in fp64, cast to fp32, and as above. target may be source.
  void (*divide)(double divisor, const float* source, float* target, bool rounds,
                 std::int64_t numel);
  /// target[j * rows + i] = source[i * columns + j] for rows first_row to end_row.
  void (*transpose)(std::int64_t rows, std::int64_t columns, std::int64_t first_row,
                    std::int64_t end_row, const float* source, float* target);

  /// sign_flip: of the gradient, 0 or 0x80000000. direction may be grad.
  void (*momentum)(float momentum, float rest, bool nesterov, std::uint32_t sign_flip,
                   const float* grad, float* exp_avg, float* direction, std::int64_t numel);
  /// lr_weight_decay is not used without `decay`.
  void (*muon_update)(float step_size, bool decay, float lr_weight_decay, const float* orthogonal,
                      float* master, std::int64_t numel);
};

/// The table of one instruction set; Isa::best is resolved. Errors: as best_isa().
const MatrixKernels& matrix_kernels(Isa isa);

}  // namespace zeroproof::cuda::host
