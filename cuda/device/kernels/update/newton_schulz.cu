#include "cuda/device/kernels/update/newton_schulz.hpp"

#include <cmath>
#include <utility>

#include "cuda/device/kernels/gradients/norm_finish.cuh"
#include "cuda/device/kernels/gradients/norm_sums.cuh"
#include "cuda/device/kernels/layers/row_of.cuh"
#include "cuda/device/kernels/update/matrix_checks.hpp"
#include "cuda/device/kernels/update/matrix_product.cuh"
#include "cuda/device/operations.hpp"
#include "cuda/device/runtime/raw_array.hpp"

namespace zeroproof::cuda::device {

namespace {

static_assert(sizeof(MatrixNorm::sums) == norm_num_sums * sizeof(Sum));

/// E, and X of the same elements. e: index of an element of E, row after row.
struct MatrixView {
  std::int64_t rows, columns;
  bool transposed;  // X is the transpose of E
  bool to_bf16;     // round() of R28
  StepEnds ends;

  /// Index of the element in X.
  ZP_DEVICE std::int64_t in_x(std::int64_t e) const {
    if (!transposed) return e;
    const std::int64_t i = row_of(e, columns);
    return (e - i * columns) * rows + i;
  }

  template <class Body>
  ZP_DEVICE void elements(const Body& body) const {
    const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
    for (std::int64_t e = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
         e < rows * columns; e += stride)
      body(e);
  }
};

/// E_ij: as given, or rounded first.
ZP_DEVICE inline float element_of(const MatrixView& view, bool rounds_first, const float* matrix,
                                  std::int64_t e) {
  return rounded(matrix[e], rounds_first && view.to_bf16);
}

/// Adds the squares of E to its sums. Each block propagates its carries before, so that the sums
/// can take 2^32 - 1 blocks of 2^32 - 1 elements.
ZP_KERNEL matrix_norm_kernel(MatrixView view, bool rounds_first, const float* matrix, Sum* sums) {
  if (view.ends.ended()) return;
  Sum* const block_sums = start_block_sums();
  TermDeposits<NormTerm::square> squares{};
  view.elements(
      [&](std::int64_t e) { squares.add(element_of(view, rounds_first, matrix, e), block_sums); });
  squares.flush(block_sums);
  __syncthreads();
  if (threadIdx.x == 0) carry_limbs(block_sums);
  finish_block_sums(block_sums, sums);
}

ZP_KERNEL matrix_root_kernel(StepEnds ends, MatrixNorm* norm) {
  if (threadIdx.x != 0 || ends.ended()) return;
  MatrixNorm own = *norm;  // in place in device memory, it would need more registers
  norm->norm = norm_of_squares(own.sums);
}

/// D of R28.
ZP_HOST_DEVICE inline double divisor_of(double norm, NormFloor floor, double eps) {
  if (norm != norm) return norm;
  if (floor == NormFloor::add) return norm + eps;
  return norm > eps ? norm : eps;
}

/// X of R28.
ZP_KERNEL matrix_divide_kernel(MatrixView view, bool rounds_first, NormFloor floor, double eps,
                               const float* matrix, const MatrixNorm* norm, float* x) {
  if (view.ends.ended()) return;
  const double divisor = divisor_of(norm->norm, floor, eps);
  view.elements([&](std::int64_t e) {
    const double q = static_cast<double>(element_of(view, rounds_first, matrix, e)) / divisor;
    x[view.in_x(e)] = rounded(static_cast<float>(q), view.to_bf16);
  });
}

ZP_KERNEL matrix_result_kernel(MatrixView view, const float* x, float* orthogonal) {
  if (view.ends.ended()) return;
  view.elements([&](std::int64_t e) { orthogonal[e] = x[view.in_x(e)]; });
}

/// One step of the iteration, from x to next. [shorter, longer] each; gram, polynomial: [shorter,
/// shorter].
struct Iteration {
  std::int64_t shorter, longer;
  bool to_bf16;
  StepEnds ends;
  float *gram, *polynomial;

  void enqueue(const QuinticPolynomial& of, PolynomialForm form, const float* x,
               float* next) const {
    const float a = static_cast<float>(of.a), b = static_cast<float>(of.b),
                c = static_cast<float>(of.c);
    const bool fused = form == PolynomialForm::fused;
    const bool each = to_bf16 && !fused;
    const bool scaled_factor = form == PolynomialForm::scaled_factor;
    enqueue_product({.rows = shorter,
                     .columns = shorter,
                     .inner = longer,
                     .left = x,
                     .right = x,
                     .product = gram,
                     .rounds_factors = false,
                     .rounds_product = to_bf16,
                     .ends = ends},
                    true);
    enqueue_product({.rows = shorter,
                     .columns = shorter,
                     .inner = shorter,
                     .left = gram,
                     .right = gram,
                     .product = polynomial,
                     .rounds_factors = scaled_factor && to_bf16,
                     .left_scale = c,
                     .scales_left = scaled_factor,
                     .added = gram,
                     .added_scale = b,
                     .product_scale = c,
                     .scales_product = !scaled_factor,
                     .rounds_each = each,
                     .rounds_product = to_bf16,
                     .ends = ends},
                    true);
    enqueue_product({.rows = shorter,
                     .columns = longer,
                     .inner = shorter,
                     .left = polynomial,
                     .right = x,
                     .product = next,
                     .rounds_factors = false,
                     .added = x,
                     .added_scale = a,
                     .rounds_each = each,
                     .rounds_product = to_bf16,
                     .ends = ends},
                    false);
  }
};

}  // namespace

void enqueue_newton_schulz(const NewtonSchulzOptions& options, std::int64_t rows,
                           std::int64_t columns, const float* matrix, float* orthogonal,
                           const NewtonSchulzMemory& memory, const StepEnds& ends) {
  require_options(options);
  const MatrixView view{rows, columns, rows > columns, options.factors == MatrixFactors::bf16,
                        ends};
  const std::int64_t numel = rows * columns;
  const std::int64_t shorter = view.transposed ? columns : rows;
  const Iteration iteration{
      shorter, view.transposed ? rows : columns, view.to_bf16,
      ends,    memory.values + 2 * numel,        memory.values + 2 * numel + shorter * shorter};
  float* x = memory.values;
  float* next = memory.values + numel;
  const int blocks = grid_blocks(numel);
  enqueue_fill(memory.norm, 0, sizeof(MatrixNorm));
  launch(matrix_norm_kernel, blocks, block_threads, view, options.rounds_first, matrix,
         reinterpret_cast<Sum*>(memory.norm->sums));
  launch(matrix_root_kernel, 1, 32, ends, memory.norm);
  launch(matrix_divide_kernel, blocks, block_threads, view, options.rounds_first, options.floor,
         options.eps, matrix, memory.norm, x);
  for (int step = 0; step < options.steps; ++step) {
    iteration.enqueue(polynomial_of(options.coefficients, step), options.form, x, next);
    std::swap(x, next);
  }
  launch(matrix_result_kernel, blocks, block_threads, view, x, orthogonal);
}

void newton_schulz(const Exec&, const NewtonSchulzOptions& options, std::int64_t rows,
                   std::int64_t columns, Span<const float> matrix, Span<float> orthogonal) {
  require_options(options);
  require_matrix("matrix", matrix, rows, columns);
  require_matrix("orthogonal", orthogonal, rows, columns);
  if (matrix.empty()) return;
  const DeviceArray<float> values(newton_schulz_numel(rows, columns));
  const DeviceArray<MatrixNorm> norm(1);
  enqueue_newton_schulz(options, rows, columns, matrix.data(), orthogonal.data(),
                        {values.data(), norm.data()}, {});
}

}  // namespace zeroproof::cuda::device
