// Matrix products by tiles (R27), and the element-wise loops of the rule muon (R28).

#include "cuda/host/simd/matrix_kernels.hpp"

#include "cuda/host/simd/fma_lanes.hpp"

namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE {
namespace {

// A tile is accumulated in registers.
#if defined(__AVX512F__)
constexpr int tile_rows = 14, tile_registers = 2;
#elif defined(__FMA__)
constexpr int tile_rows = 6, tile_registers = 2;
#else
constexpr int tile_rows = 4, tile_registers = 1;
#endif
constexpr int tile_columns = tile_registers * fma_width;
constexpr std::int64_t tile_numel = std::int64_t{tile_rows} * tile_columns;
static_assert(tile_rows <= 32 && tile_columns <= 32);  // panels_numel() relies on it
// Terms of a chain at a time: its panels stay in the first cache.
constexpr std::int64_t most_terms = 256;
// Packed at a time.
constexpr std::int64_t strip_terms = 64;
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

/// panel[q * lanes + l] = strip[l * strip_terms + q]
void transpose_strip(const float* strip, std::int64_t lanes, std::int64_t terms, float* panel) {
  std::int64_t l = 0;
#if defined(__SSE2__)
  for (; l + 4 <= lanes; l += 4) {
    const float* const from = strip + l * strip_terms;
    float* const to = panel + l;
    std::int64_t q = 0;
    for (; q + 4 <= terms; q += 4) {
      __m128 a = _mm_loadu_ps(from + q), b = _mm_loadu_ps(from + strip_terms + q);
      __m128 c = _mm_loadu_ps(from + 2 * strip_terms + q);
      __m128 d = _mm_loadu_ps(from + 3 * strip_terms + q);
      _MM_TRANSPOSE4_PS(a, b, c, d);
      _mm_storeu_ps(to + q * lanes, a);
      _mm_storeu_ps(to + (q + 1) * lanes, b);
      _mm_storeu_ps(to + (q + 2) * lanes, c);
      _mm_storeu_ps(to + (q + 3) * lanes, d);
    }
    for (; q < terms; ++q) {
      for (std::int64_t i = 0; i < 4; ++i) to[q * lanes + i] = from[i * strip_terms + q];
    }
  }
#endif
  for (; l < lanes; ++l) {
    for (std::int64_t q = 0; q < terms; ++q) panel[q * lanes + l] = strip[l * strip_terms + q];
  }
}

template <bool rounds>
void pack_panel(const MatrixFactor& factor, std::int64_t first_row, std::int64_t lanes,
                std::int64_t inner, float* panel) {
  const std::int64_t left = factor.rows - first_row;
  const std::int64_t count = left < lanes ? left : lanes;
  const float* const first = factor.data + first_row * factor.row_step;
  if (factor.row_step == 1) {
    for (std::int64_t q = 0; q < inner; ++q) {
      const float* const from = first + q * factor.inner_step;
      float* const to = panel + q * lanes;
#pragma omp simd
      for (std::int64_t l = 0; l < count; ++l) to[l] = rounded<rounds>(from[l]);
      for (std::int64_t l = count; l < lanes; ++l) to[l] = 0.0F;
    }
    return;
  }
  alignas(64) float strip[most_lanes * strip_terms];
  for (std::int64_t i = count * strip_terms; i < lanes * strip_terms; ++i) strip[i] = 0.0F;
  for (std::int64_t q = 0; q < inner; q += strip_terms) {
    const std::int64_t terms = inner - q < strip_terms ? inner - q : strip_terms;
    for (std::int64_t l = 0; l < count; ++l) {
      const float* const from = first + l * factor.row_step + q;
      float* const to = strip + l * strip_terms;
#pragma omp simd
      for (std::int64_t i = 0; i < terms; ++i) to[i] = rounded<rounds>(from[i]);
    }
    transpose_strip(strip, lanes, terms, panel + q * lanes);
  }
}

void pack(const MatrixFactor& factor, std::int64_t first_row, std::int64_t lanes,
          std::int64_t inner, bool rounds, float* panel) {
  return rounds ? pack_panel<true>(factor, first_row, lanes, inner, panel)
                : pack_panel<false>(factor, first_row, lanes, inner, panel);
}

/// The chains of one tile over `terms` terms, from +0 or from where `chains` left them.
///
/// Not inlined: tests/instructions_test.sh finds the only fma of the program by the name.
template <bool begins>
__attribute__((noinline)) void matrix_product_tile(std::int64_t terms, const float* left,
                                                   const float* right, float* chains) {
  FmaLanes sums[tile_rows][tile_registers];
  for (int r = 0; r < tile_rows; ++r) {
    for (int v = 0; v < tile_registers; ++v) {
      sums[r][v] = begins ? fma_zero() : fma_load(chains + r * tile_columns + v * fma_width);
    }
  }
  for (std::int64_t q = 0; q < terms; ++q) {
    FmaFactor y[tile_registers];
    for (int v = 0; v < tile_registers; ++v) {
      y[v] = fma_factor(right + q * tile_columns + v * fma_width);
    }
    for (int r = 0; r < tile_rows; ++r) {
      const FmaFactor x = fma_broadcast(left[q * tile_rows + r]);
      for (int v = 0; v < tile_registers; ++v) {
        sums[r][v] = matrix_product_fma(x, y[v], sums[r][v]);
      }
    }
  }
  for (int r = 0; r < tile_rows; ++r) {
    for (int v = 0; v < tile_registers; ++v) {
      fma_store(chains + r * tile_columns + v * fma_width, sums[r][v]);
    }
  }
}

/// Folds the sums of block b (R18) into those before it. partials[slot] is a partial fold of 2^slot blocks for every 1
/// in b; the sums of b are in slot 0 if b is even, otherwise in the last slot. The fold of all 2^slot blocks ends up in
/// that slot.
void fold_tile(int b, float* partials) {
  float* const sums = partials + (product_slots - 1) * tile_numel;
  for (int slot = 0; (b >> slot & 1) != 0; ++slot) {
    const float* const earlier = partials + slot * tile_numel;
    float* const to = (b >> (slot + 1) & 1) != 0 ? sums : partials + (slot + 1) * tile_numel;
#pragma omp simd
    for (std::int64_t i = 0; i < tile_numel; ++i) to[i] = earlier[i] + sums[i];
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
    ends(end, end.addend == nullptr ? nullptr : end.addend + first, from, across);
    const std::int64_t below = row + r + 1 - column;  // columns up to the diagonal
    const std::int64_t stored = block.symmetric && below < across ? below : across;
    float* const to = block.product + first;
    for (std::int64_t j = 0; j < stored; ++j) to[j] = from[j];
  }
  if (!block.symmetric) return;
  for (std::int64_t j = 0; j < across; ++j) {
    float* const to = block.product + (column + j) * block.columns + row;
    for (std::int64_t r = column + j > row ? column + j - row : 0; r < down; ++r) {
      to[r] = values[r * tile_columns + j];
    }
  }
}

/// Terms q to q + terms of block b.
struct ChainPart {
  int b;
  std::int64_t q, terms;
  bool begins, ends;
};

void product_part(const ProductBlock& block, const ProductEnd& end, const ChainPart& part) {
  const auto chain = part.begins ? matrix_product_tile<true> : matrix_product_tile<false>;
  const std::int64_t slot = part.b % 2 == 0 ? 0 : product_slots - 1;
  const std::int64_t terms = block.inner.terms();
  const int count = block.inner.count, result = count == 8 ? 3 : count / 2;  // log2
  float* partials = block.partials;
  for (std::int64_t column = block.first_column; column < block.end_column;
       column += tile_columns) {
    for (std::int64_t row = block.first_row; row < block.end_row; row += tile_rows) {
      if (block.symmetric && row + tile_rows <= column) continue;
      chain(part.terms, block.left + row * terms + part.q * tile_rows,
            block.right + column * terms + part.q * tile_columns, partials + slot * tile_numel);
      if (part.ends) fold_tile(part.b, partials);
      if (part.ends && part.b + 1 == count)
        store_tile(block, end, row, column, partials + result * tile_numel);
      partials += product_slots * tile_numel;
    }
  }
}

void product_block(const ProductBlock& block, const ProductEnd& end) {
  for (int b = 0; b < block.inner.count; ++b) {
    const std::int64_t first = block.inner.begin(b), terms = block.inner.begin(b + 1) - first;
    const std::int64_t parts = terms > most_terms ? (terms + most_terms - 1) / most_terms : 1;
    for (std::int64_t p = 0; p < parts; ++p) {
      const std::int64_t begin = terms * p / parts, last = terms * (p + 1) / parts;
      product_part(block, end, {b, first + begin, last - begin, p == 0, p + 1 == parts});
    }
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
    const std::int64_t last = i + side < end_row ? i + side : end_row;
    for (std::int64_t j = 0; j < columns; ++j) {
      for (std::int64_t r = i; r < last; ++r) target[j * rows + r] = source[r * columns + j];
    }
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

}  // namespace

extern const MatrixKernels matrix_table;
const MatrixKernels matrix_table = {tile_rows, tile_columns, pack,     product_block, scale,
                                    divide,    transpose,    momentum, muon_update};

}  // namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE
