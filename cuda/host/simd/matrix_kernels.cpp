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
constexpr std::int64_t most_terms =
    256;  // of a chain at a time: its panels stay in the first cache

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

template <bool rounds>
void pack_panel(const MatrixFactor& factor, std::int64_t first_row, std::int64_t lanes,
                std::int64_t inner, float* panel) {
  const std::int64_t left = factor.rows - first_row;
  const std::int64_t count = left < lanes ? left : lanes;
  const float* const first = factor.data + first_row * factor.row_step;
  for (std::int64_t q = 0; q < inner; ++q) {
    const float* const from = first + q * factor.inner_step;
    float* const to = panel + q * lanes;
    for (std::int64_t l = 0; l < count; ++l) to[l] = rounded<rounds>(from[l * factor.row_step]);
    for (std::int64_t l = count; l < lanes; ++l) to[l] = 0.0F;
  }
}

void pack(const MatrixFactor& factor, std::int64_t first_row, std::int64_t lanes,
          std::int64_t inner, bool rounds, float* panel) {
  return rounds ? pack_panel<true>(factor, first_row, lanes, inner, panel)
                : pack_panel<false>(factor, first_row, lanes, inner, panel);
}

/// Where a run of terms is in its chain: `begins` at +0, `ends` with the folds of block `block` (R18).
struct ChainPart {
  std::int64_t terms = 0;
  int block = 0;
  bool begins = false, ends = false;
};

/// Continues the chains of one tile. The folds are a stack of partial sums, one for every 1 in the number of finished
/// blocks; partials[product_slots - 1] is an unfinished chain, and partials[0] the result.
///
/// Not inlined: tests/instructions_test.sh finds the only fma of the program by the name.
__attribute__((noinline)) void matrix_product_tile(const ChainPart& part, const float* left,
                                                   const float* right, float* partials) {
  float* const unfinished = partials + (product_slots - 1) * tile_numel;
  FmaLanes sums[tile_rows][tile_registers];
  for (int r = 0; r < tile_rows; ++r) {
    for (int v = 0; v < tile_registers; ++v) {
      sums[r][v] =
          part.begins ? fma_zero() : fma_load(unfinished + r * tile_columns + v * fma_width);
    }
  }
  for (std::int64_t q = 0; q < part.terms; ++q) {
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
  const auto each = [&](auto&& body) {
    for (int r = 0; r < tile_rows; ++r) {
      for (int v = 0; v < tile_registers; ++v) body(sums[r][v], r * tile_columns + v * fma_width);
    }
  };
  if (!part.ends) {
    each([&](FmaLanes sum, int at) { fma_store(unfinished + at, sum); });
    return;
  }
  int slot = 0;
  for (; (part.block >> slot & 1) != 0; ++slot) {
    const float* const earlier = partials + slot * tile_numel;
    each([&](FmaLanes& sum, int at) { sum = fma_add(fma_load(earlier + at), sum); });
  }
  if (part.block == 7) slot = 0;
  each([&](FmaLanes sum, int at) { fma_store(partials + slot * tile_numel + at, sum); });
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

/// Calls body(row, column, partials) for the tiles of a block; of a symmetric product for those with an element on
/// or below the diagonal.
template <class Body>
void each_tile(const ProductBlock& block, const Body& body) {
  float* partials = block.partials;
  for (std::int64_t column = block.first_column; column < block.end_column;
       column += tile_columns) {
    for (std::int64_t row = block.first_row; row < block.end_row; row += tile_rows) {
      if (block.symmetric && row + tile_rows <= column) continue;
      body(row, column, partials);
      partials += product_slots * tile_numel;
    }
  }
}

void product_block(const ProductBlock& block, const ProductEnd& end) {
  for (int b = 0; b < 8; ++b) {
    const std::int64_t first = block.inner * b / 8, last = block.inner * (b + 1) / 8;
    const std::int64_t runs = (last - first + most_terms - 1) / most_terms;
    std::int64_t q = first;
    for (std::int64_t run = 0; run == 0 || run < runs; ++run) {
      const std::int64_t next = run + 1 < runs ? first + (last - first) * (run + 1) / runs : last;
      const ChainPart part = {next - q, b, run == 0, next == last};
      each_tile(block, [&](std::int64_t row, std::int64_t column, float* partials) {
        matrix_product_tile(part, block.left + row * block.inner + q * tile_rows,
                            block.right + column * block.inner + q * tile_columns, partials);
      });
      q = next;
    }
  }
  each_tile(block, [&](std::int64_t row, std::int64_t column, float* partials) {
    store_tile(block, end, row, column, partials);
  });
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
