// Matrix products by tiles (R27), and the element-wise loops of the rule muon (R28).

#include "cuda/host/simd/matrix_kernels.hpp"

#include "cuda/host/simd/fma_lanes.hpp"

namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE {
namespace {

// Copies of a loop, so that its arrays become registers.
#if defined(__clang__)
#define ZP_UNROLLED _Pragma("unroll")
#else
#define ZP_UNROLLED _Pragma("GCC unroll 16")
#endif

// A tile is accumulated in registers.
#if defined(__AVX512F__)
constexpr int tile_rows = 14, tile_registers = 2;
#elif defined(__FMA__)
constexpr int tile_rows = 6, tile_registers = 2;
#else
constexpr int tile_rows = 4, tile_registers = 1;
#endif
constexpr int tile_columns = tile_registers * fma_width;
static_assert(tile_rows <= 32 && tile_columns <= 32);  // panels_numel() relies on it
constexpr std::int64_t tile_numel = std::int64_t{tile_rows} * tile_columns;
// Words of a chain at a time: its panels stay in the first cache.
constexpr std::int64_t most_words = 256;
// Packed at a time.
constexpr std::int64_t strip_words = 128;
constexpr std::int64_t most_lanes = tile_rows > tile_columns ? tile_rows : tile_columns;

inline float rounded_to_bf16(float value) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t rounded = (bits + 0x7FFFU + (bits >> 16 & 1U)) & 0xFFFF0000U;
  const bool nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
  return float_of(nan ? 0x7FFF0000U : rounded);
}

template <bool rounds>
inline float rounded(float value) {
  return rounds ? rounded_to_bf16(value) : value;
}

/// Two values of bf16, of which a product takes `first` first.
inline float pair_word(float first, float second) {
  return float_of(bits_of(rounded_to_bf16(first)) | bits_of(rounded_to_bf16(second)) >> 16);
}

/// 1 for values whose products with other values may be no multiple of 2^-126.
inline std::uint32_t is_tiny(float value) {
  const std::uint32_t magnitude = bits_of(value) & 0x7FFFFFFFU;
  return magnitude - 1U < bits_of(0x1p-56F) - 1U ? 1 : 0;
}

/// to[q * to_step + l] = from[l * from_step + q] for l < rows, q < columns
void transpose_part(const float* from, std::int64_t from_step, std::int64_t rows,
                    std::int64_t columns, float* to, std::int64_t to_step) {
  std::int64_t l = 0;
#if defined(__SSE2__)
  for (; l + 4 <= rows; l += 4) {
    std::int64_t q = 0;
    for (; q + 4 <= columns; q += 4) {
      __m128 lines[4];
      for (int i = 0; i < 4; ++i) lines[i] = _mm_loadu_ps(from + (l + i) * from_step + q);
      _MM_TRANSPOSE4_PS(lines[0], lines[1], lines[2], lines[3]);
      for (int i = 0; i < 4; ++i) _mm_storeu_ps(to + (q + i) * to_step + l, lines[i]);
    }
    for (; q < columns; ++q) {
      for (std::int64_t i = l; i < l + 4; ++i) to[q * to_step + i] = from[i * from_step + q];
    }
  }
#endif
  for (; l < rows; ++l) {
    for (std::int64_t q = 0; q < columns; ++q) to[q * to_step + l] = from[l * from_step + q];
  }
}

/// Packs `terms` terms of one block, [words][lanes], and returns whether one is tiny.
template <PanelForm form>
std::uint32_t pack_block(const MatrixFactor& factor, const float* first, std::int64_t count,
                         std::int64_t lanes, std::int64_t terms, float* panel) {
  constexpr std::int64_t width = form == PanelForm::pairs ? 2 : 1;
  std::uint32_t tiny = 0;
  if (factor.row_step == 1) {
    for (std::int64_t q = 0; q < terms; q += width) {
      const float* const from = first + q * factor.inner_step;
      const float* const next = q + 1 < terms ? from + factor.inner_step : nullptr;
      float* const to = panel + q / width * lanes;
      if (form == PanelForm::pairs && next != nullptr) {
#pragma omp simd reduction(| : tiny)
        for (std::int64_t l = 0; l < count; ++l) {
          to[l] = pair_word(from[l], next[l]);
          tiny |= is_tiny(from[l]) | is_tiny(next[l]);
        }
      } else {
#pragma omp simd reduction(| : tiny)
        for (std::int64_t l = 0; l < count; ++l) {
          to[l] = rounded<form != PanelForm::plain>(from[l]);
          if (form == PanelForm::pairs) tiny |= is_tiny(from[l]);
        }
      }
      for (std::int64_t l = count; l < lanes; ++l) to[l] = 0.0F;
    }
    return tiny;
  }
  alignas(64) float strip[most_lanes * strip_words];
  for (std::int64_t i = count * strip_words; i < lanes * strip_words; ++i) strip[i] = 0.0F;
  for (std::int64_t q = 0; q < terms; q += width * strip_words) {
    const std::int64_t left = terms - q;
    const std::int64_t some = left < width * strip_words ? left : width * strip_words;
    for (std::int64_t l = 0; l < count; ++l) {
      const float* const from = first + l * factor.row_step + q;
      float* const to = strip + l * strip_words;
#pragma omp simd reduction(| : tiny)
      for (std::int64_t i = 0; i < some / width; ++i) {
        to[i] = form == PanelForm::pairs ? pair_word(from[2 * i], from[2 * i + 1])
                                         : rounded<form == PanelForm::rounded>(from[i]);
      }
      if (some % width != 0) to[some / width] = pair_word(from[some - 1], 0.0F);
      if (form != PanelForm::pairs) continue;
#pragma omp simd reduction(| : tiny)
      for (std::int64_t i = 0; i < some; ++i) tiny |= is_tiny(from[i]);
    }
    transpose_part(strip, strip_words, lanes, (some + width - 1) / width, panel + q / width * lanes,
                   lanes);
  }
  return tiny;
}

template <PanelForm form>
bool pack_panel(const MatrixFactor& factor, std::int64_t first_row, std::int64_t lanes,
                const InnerBlocks& inner, float* panel) {
  const std::int64_t left = factor.rows - first_row;
  const std::int64_t count = left < lanes ? left : lanes;
  const float* const first = factor.data + first_row * factor.row_step;
  std::uint32_t tiny = 0;
  for (int b = 0; b < inner.count; ++b) {
    const std::int64_t begin = inner.begin(b);
    tiny |= pack_block<form>(factor, first + begin * factor.inner_step, count, lanes,
                             inner.begin(b + 1) - begin, panel);
    panel += block_words(inner, b, form) * lanes;
  }
  return tiny == 0;
}

bool pack(const MatrixFactor& factor, std::int64_t first_row, std::int64_t lanes,
          const InnerBlocks& inner, PanelForm form, float* panel) {
  const auto packs = form == PanelForm::pairs     ? pack_panel<PanelForm::pairs>
                     : form == PanelForm::rounded ? pack_panel<PanelForm::rounded>
                                                  : pack_panel<PanelForm::plain>;
  return packs(factor, first_row, lanes, inner, panel);
}

/// The words of one chain, or a part of them, of block b.
struct ChainPart {
  int b;
  std::int64_t word, words;
  bool begins, ends;
};

/// One step of 16 chains: a term with factors fp32, two with pairs.
template <bool pairs>
inline FmaLanes chain_step(FmaFactor x, FmaFactor y, FmaLanes s) {
#if defined(__AVX512BF16__)
  if constexpr (pairs) return matrix_product_pair(x, y, s);
#endif
  return matrix_product_fma(x, y, s);
}

/// The chains of one tile over a part, from +0 or from where `partials` have them. At the end of block b its sums are
/// folded (R18) into those before it: partials[slot] is a partial fold of 2^slot blocks for every 1 in b. The fold of all
/// blocks ends up in the slot of their number, for 8 blocks the last. A chain that goes on is in slot 0 if b is even,
/// otherwise in the last one.
///
/// Not inlined: tests/instructions_test.sh finds the only fma of the program by the name.
template <bool pairs>
__attribute__((noinline)) void matrix_product_tile(const ChainPart& part, const float* left,
                                                   const float* right, float* partials) {
  FmaLanes sums[tile_rows][tile_registers];
  float* const chain = partials + (part.b % 2 == 0 ? 0 : product_slots - 1) * tile_numel;
  ZP_UNROLLED for (int r = 0; r < tile_rows; ++r) {
    ZP_UNROLLED for (int v = 0; v < tile_registers; ++v) {
      sums[r][v] = part.begins ? fma_zero() : fma_load(chain + r * tile_columns + v * fma_width);
    }
  }
  for (std::int64_t q = 0; q < part.words; ++q) {
    FmaFactor y[tile_registers];
    ZP_UNROLLED for (int v = 0; v < tile_registers; ++v) {
      y[v] = fma_factor(right + q * tile_columns + v * fma_width);
    }
    ZP_UNROLLED for (int r = 0; r < tile_rows; ++r) {
      const FmaFactor x = fma_broadcast(left[q * tile_rows + r]);
      ZP_UNROLLED for (int v = 0; v < tile_registers; ++v) {
        sums[r][v] = chain_step<pairs>(x, y[v], sums[r][v]);
      }
    }
  }
  float* to = chain;
  if (part.ends) {
    to = partials;
    for (int b = part.b; b % 2 != 0; b /= 2, to += tile_numel) {
      ZP_UNROLLED for (int r = 0; r < tile_rows; ++r) {
        ZP_UNROLLED for (int v = 0; v < tile_registers; ++v) {
          sums[r][v] = fma_add(fma_load(to + r * tile_columns + v * fma_width), sums[r][v]);
        }
      }
    }
  }
  ZP_UNROLLED for (int r = 0; r < tile_rows; ++r) {
    ZP_UNROLLED for (int v = 0; v < tile_registers; ++v) {
      fma_store(to + r * tile_columns + v * fma_width, sums[r][v]);
    }
  }
}

template <bool each, bool last>
void end_row(const ProductEnd& end, const float* addend, float* values, std::int64_t count) {
  const float factor = end.factor, addend_factor = end.addend_factor;
  if (addend == nullptr) {
    for (std::int64_t j = 0; j < count; ++j) values[j] = rounded<last>(values[j]);
    return;
  }
#pragma omp simd
  for (std::int64_t j = 0; j < count; ++j) {
    const float t = rounded<each>(values[j]);
    const float v = rounded<each>(factor * t);
    const float w = rounded<each>(addend_factor * addend[j]);
    values[j] = rounded<last>(w + v);
  }
}

/// Ends the values of a tile, [tile_rows, tile_columns], and stores those that are in the product.
void store_tile(const ProductBlock& block, const ProductEnd& end, std::int64_t row,
                std::int64_t column, float* values) {
  const auto ends = end.rounds_each ? (end.rounds_last ? end_row<true, true> : end_row<true, false>)
                    : end.rounds_last ? end_row<false, true>
                                      : end_row<false, false>;
  const std::int64_t down = block.end_row - row < tile_rows ? block.end_row - row : tile_rows;
  const std::int64_t across =
      block.end_column - column < tile_columns ? block.end_column - column : tile_columns;
  for (std::int64_t r = 0; r < down; ++r) {
    const std::int64_t first = (row + r) * block.columns + column;
    float* const from = values + r * tile_columns;
    const std::int64_t below = row + r + 1 - column;  // columns up to the diagonal
    const std::int64_t stored = block.symmetric && below < across ? below : across;
    // The product may be the addend, so no other element of it is read.
    ends(end, end.addend == nullptr ? nullptr : end.addend + first, from, stored);
    float* const to = block.product + first;
    for (std::int64_t j = 0; j < stored; ++j) to[j] = from[j];
  }
  if (!block.symmetric) return;
  float* const mirrored = block.product + column * block.columns + row;
  if (row >= column + across)
    return transpose_part(values, tile_columns, down, across, mirrored, block.columns);
  for (std::int64_t j = 0; j < across; ++j) {
    for (std::int64_t r = column + j > row ? column + j - row : 0; r < down; ++r) {
      mirrored[j * block.columns + r] = values[r * tile_columns + j];
    }
  }
}

/// Loads the places of a tile in the product, and in an addend, into the cache.
void prefetch_tile(const ProductBlock& block, const ProductEnd& end, std::int64_t row,
                   std::int64_t column) {
  const std::int64_t last = block.end_row - row < tile_rows ? block.end_row : row + tile_rows;
  for (std::int64_t r = row; r < last; ++r) {
    const std::int64_t first = r * block.columns + column;
    for (int v = 0; v < tile_columns; v += 16) {
      __builtin_prefetch(block.product + first + v, 1);
      if (end.addend != nullptr) __builtin_prefetch(end.addend + first + v);
    }
  }
}

void product_part(const ProductBlock& block, const ProductEnd& end, const ChainPart& part) {
  const auto chain =
      block.form == PanelForm::pairs ? matrix_product_tile<true> : matrix_product_tile<false>;
  const int count = block.inner.count, result = count == 8 ? 3 : count / 2;  // log2
  const bool stores = part.ends && part.b + 1 == count;
  float* partials = block.partials;
  for (std::int64_t column = block.first_column; column < block.end_column;
       column += tile_columns) {
    for (std::int64_t row = block.first_row; row < block.end_row; row += tile_rows) {
      if (block.symmetric && row + tile_rows <= column) continue;
      if (stores) prefetch_tile(block, end, row, column);
      chain(part, block.left + row * block.words + part.word * tile_rows,
            block.right + column * block.words + part.word * tile_columns, partials);
      if (stores) store_tile(block, end, row, column, partials + result * tile_numel);
      partials += product_slots * tile_numel;
    }
  }
}

void product_block(const ProductBlock& block, const ProductEnd& end) {
  std::int64_t first = 0;
  for (int b = 0; b < block.inner.count; ++b) {
    const std::int64_t words = block_words(block.inner, b, block.form);
    const std::int64_t parts = words > most_words ? (words + most_words - 1) / most_words : 1;
    for (std::int64_t p = 0; p < parts; ++p) {
      const std::int64_t begin = words * p / parts, last = words * (p + 1) / parts;
      product_part(block, end, {b, first + begin, last - begin, p == 0, p + 1 == parts});
    }
    first += words;
  }
}

template <bool rounds>
void scale_loop(float factor, const float* source, float* target, std::int64_t numel) {
#pragma omp simd
  for (std::int64_t i = 0; i < numel; ++i) target[i] = rounded<rounds>(factor * source[i]);
}

void scale(float factor, const float* source, float* target, bool rounds, std::int64_t numel) {
  return rounds ? scale_loop<true>(factor, source, target, numel)
                : scale_loop<false>(factor, source, target, numel);
}

template <bool rounds>
void divide_loop(double divisor, const float* source, float* target, std::int64_t numel) {
#pragma omp simd
  for (std::int64_t i = 0; i < numel; ++i) {
    const double q = static_cast<double>(source[i]) / divisor;
    target[i] = rounded<rounds>(static_cast<float>(q));
  }
}

void divide(double divisor, const float* source, float* target, bool rounds, std::int64_t numel) {
  return rounds ? divide_loop<true>(divisor, source, target, numel)
                : divide_loop<false>(divisor, source, target, numel);
}

void transpose(std::int64_t rows, std::int64_t columns, std::int64_t first_row,
               std::int64_t end_row, const float* source, float* target) {
  constexpr std::int64_t side = 16;
  for (std::int64_t i = first_row; i < end_row; i += side) {
    transpose_part(source + i * columns, columns, i + side < end_row ? side : end_row - i, columns,
                   target + i, rows);
  }
}

template <bool nesterov>
void momentum_loop(float kept, float rest, std::uint32_t sign_flip, const float* grad,
                   float* exp_avg, float* direction, std::int64_t numel) {
#pragma omp simd
  for (std::int64_t i = 0; i < numel; ++i) {
    const float g = float_of(bits_of(grad[i]) ^ sign_flip);
    const float x = kept * exp_avg[i];
    const float y = rest * g;
    const float m = x + y;
    exp_avg[i] = m;
    const float h = kept * m;
    direction[i] = nesterov ? y + h : m;
  }
}

void momentum(float kept, float rest, bool nesterov, std::uint32_t sign_flip, const float* grad,
              float* exp_avg, float* direction, std::int64_t numel) {
  return nesterov ? momentum_loop<true>(kept, rest, sign_flip, grad, exp_avg, direction, numel)
                  : momentum_loop<false>(kept, rest, sign_flip, grad, exp_avg, direction, numel);
}

template <bool decay>
void update_loop(float step_size, float lr_weight_decay, const float* orthogonal, float* master,
                 std::int64_t numel) {
#pragma omp simd
  for (std::int64_t i = 0; i < numel; ++i) {
    const float p = master[i];
    const float a = step_size * orthogonal[i];
    float u = a;
    if (decay) {
      const float w = lr_weight_decay * p;
      u = a + w;
    }
    master[i] = p - u;
  }
}

void muon_update(float step_size, bool decay, float lr_weight_decay, const float* orthogonal,
                 float* master, std::int64_t numel) {
  return decay ? update_loop<true>(step_size, lr_weight_decay, orthogonal, master, numel)
               : update_loop<false>(step_size, lr_weight_decay, orthogonal, master, numel);
}

#if defined(__AVX512BF16__)
/// Whether this processor adds the two products of a pair as R27 does, with a rounding each: on sums for which another
/// order, one rounding for both, or a product that overflows before the sum is finite, has other bits.
bool matrix_product_has_pairs() {
  alignas(64) float a[fma_width], b[fma_width], c[fma_width], d[fma_width], x[fma_width],
      y[fma_width], s[fma_width], wanted[fma_width], got[fma_width];
  std::uint32_t state = 1, different = 0;
  const auto drawn = [&state] {  // a value of bf16, of both signs, from 2^-4 to 2^4
    state = state * 1664525U + 1013904223U;
    return float_of((state & 0x80000000U) | (123U + (state >> 16 & 7U)) << 23 |
                    (state >> 19 & 0x7FU) << 16);
  };
  for (int round = 0; round < 256; ++round) {
    const bool large = round % 2 != 0;
    const float factor = large ? 0x1p62F : 1.0F, addend = large ? 0x1p123F : 1.0F;
    for (int i = 0; i < fma_width; ++i) {
      a[i] = drawn() * factor, b[i] = drawn(), c[i] = drawn() * factor, d[i] = drawn();
      s[i] = drawn() * (1.0F + 0x1p-23F * static_cast<float>(state >> 8 & 0xFFU)) * addend;
      x[i] = pair_word(a[i], b[i]);
      y[i] = pair_word(c[i], d[i]);
    }
    const FmaLanes first = matrix_product_fma(fma_factor(a), fma_factor(c), fma_load(s));
    fma_store(wanted, matrix_product_fma(fma_factor(b), fma_factor(d), first));
    fma_store(got, matrix_product_pair(fma_factor(x), fma_factor(y), fma_load(s)));
    for (int i = 0; i < fma_width; ++i) different |= bits_of(got[i]) ^ bits_of(wanted[i]);
  }
  return different == 0;
}
#endif

}  // namespace

#if defined(__AVX512BF16__)
constexpr auto has_pairs = matrix_product_has_pairs;
#else
constexpr bool (*has_pairs)() = nullptr;
#endif

extern const MatrixKernels matrix_table;
const MatrixKernels matrix_table = {tile_rows, tile_columns, has_pairs, pack,     product_block,
                                    scale,     divide,       transpose, momentum, muon_update};

}  // namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE
