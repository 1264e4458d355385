#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "cuda/host/base/parallel_units.hpp"
#include "cuda/host/operations.hpp"
#include "cuda/host/update/matrix_product.hpp"
#include "cuda/host/update/newton_schulz_steps.hpp"
#include "cuda/host/update/setting_checks.hpp"

namespace zeroproof::cuda::host {
namespace {

void check(const NewtonSchulzOptions& options, std::int64_t rows, std::int64_t columns,
           std::size_t matrix, std::size_t orthogonal) {
  const auto require = [](bool ok, const std::string& problem, const char* why,
                          const char* remedy) {
    ZP_CHECK(ok, ErrorCode::invalid_argument, "newton_schulz: " + problem, why, remedy);
  };
  require(options.steps >= 1 && options.steps <= 64, "steps is " + std::to_string(options.steps),
          "R28 has 1 to 64 of them", "use 5 if in doubt");
  require(std::isfinite(options.eps) && options.eps >= 0x1p-126,
          "eps is " + setting_checks::text(options.eps), "a matrix of zeros is divided by it",
          "use a finite number of at least 2^-126, such as 1e-7");
  require(rows >= 0 && columns >= 0,
          "the matrix has " + std::to_string(rows) + " rows and " + std::to_string(columns) +
              " columns",
          "no matrix has such an extent", "use 0 or more");
  require(has_numel(rows, columns, matrix) && orthogonal == matrix,
          "matrix has " + std::to_string(matrix) + " elements and orthogonal " +
              std::to_string(orthogonal) + " for " + std::to_string(rows) + " rows of " +
              std::to_string(columns),
          "rows follow each other without gaps", "pass views of the whole matrix");
}

/// The iterations on an m x n matrix, m <= n.
class Iterations {
 public:
  /// memory: [newton_schulz_numel()], of which x, two buffers of m n elements, are the begin.
  Iterations(const Exec& exec, const NewtonSchulzOptions& options, std::int64_t m, std::int64_t n,
             float* memory)
      : exec_(exec),
        options_(options),
        rounds_(options.factors == MatrixFactors::bf16),
        m_(m),
        n_(n),
        gram_(memory + 2 * m * n),
        polynomial_(gram_ + m * m),
        scaled_(polynomial_ + m * m),
        multiplier_(exec,
                    options.form == PolynomialForm::scaled_factor ? scaled_ + m * m : scaled_) {}

  /// X of one step becomes X', [m, n] each.
  void step(const QuinticPolynomial& published, const float* x, float* next) {
    const PolynomialEnds ends(options_, published);
    const MatrixFactor rows{x, n_, 1, m_};
    const MatrixFactor gram{gram_, m_, 1, m_};
    product(rows, rows, n_, true, ends.gram, gram_);
    if (options_.form == PolynomialForm::scaled_factor) {
      const MatrixKernels& kernels = matrix_kernels(exec_.isa);
      parallel_blocks(exec_, m_ * m_, [&](std::int64_t begin, std::int64_t last) {
        kernels.scale(ends.left_factor, gram_ + begin, scaled_ + begin, rounds_, last - begin);
      });
      product({scaled_, m_, 1, m_}, gram, m_, false, ends.polynomial_of(gram_), polynomial_);
    } else {
      product(gram, gram, m_, true, ends.polynomial_of(gram_), polynomial_);
    }
    product({polynomial_, m_, 1, m_}, {x, 1, n_, n_}, m_, false, ends.next_of(x), next);
  }

 private:
  /// Factors have been rounded already.
  void product(const MatrixFactor& left, const MatrixFactor& right, std::int64_t inner,
               bool symmetric, const ProductEnd& end, float* to) {
    multiplier_.multiply(left, right, {inner}, false, symmetric, end, to);
  }

  const Exec& exec_;
  const NewtonSchulzOptions& options_;
  bool rounds_;
  std::int64_t m_, n_;
  float *gram_, *polynomial_, *scaled_;
  MatrixMultiplier multiplier_;
};

}  // namespace

void newton_schulz_in(const Exec& exec, const NewtonSchulzOptions& options, std::int64_t rows,
                      std::int64_t columns, Span<const float> matrix, Span<float> orthogonal,
                      float* memory) {
  check(options, rows, columns, matrix.size(), orthogonal.size());
  if (matrix.empty()) return;
  const MatrixKernels& kernels = matrix_kernels(exec.isa);
  const bool rounds = options.factors == MatrixFactors::bf16;
  const bool tall = rows > columns;
  float *x = memory, *next = memory + numel(matrix);
  std::copy(matrix.begin(), matrix.end(), x);
  const auto elements = [&](auto&& body) {
    parallel_blocks(exec, numel(matrix),
                    [&](std::int64_t begin, std::int64_t end) { body(x + begin, end - begin); });
  };
  const auto transposed = [&](std::int64_t from_rows, std::int64_t from_columns, float* to) {
    parallel_units(exec, from_rows, from_columns, [&](std::int64_t begin, std::int64_t end) {
      kernels.transpose(from_rows, from_columns, begin, end, x, to);
    });
  };
  if (options.rounds_first) {
    elements([&](float* at, std::int64_t count) { kernels.scale(1.0F, at, at, rounds, count); });
  }
  NormLimbs limbs;
  grad_norm_exact_accumulate(exec, {x, matrix.size()}, limbs);
  const double divisor = newton_schulz_divisor(options, grad_norm_finish(limbs));
  elements([&](float* at, std::int64_t count) { kernels.divide(divisor, at, at, rounds, count); });
  if (tall) {
    transposed(rows, columns, next);
    std::swap(x, next);
  }
  Iterations iterations(exec, options, std::min(rows, columns), std::max(rows, columns), memory);
  for (int k = 0; k < options.steps; ++k) {
    iterations.step(polynomial_of(options.coefficients, k), x, next);
    std::swap(x, next);
  }
  if (tall) {
    transposed(columns, rows, orthogonal.data());
  } else {
    std::copy_n(x, matrix.size(), orthogonal.begin());
  }
}

void newton_schulz(const Exec& exec, const NewtonSchulzOptions& options, std::int64_t rows,
                   std::int64_t columns, Span<const float> matrix, Span<float> orthogonal) {
  check(options, rows, columns, matrix.size(), orthogonal.size());
  const auto memory = std::make_unique_for_overwrite<float[]>(
      static_cast<std::size_t>(newton_schulz_numel(options, rows, columns)));
  newton_schulz_in(exec, options, rows, columns, matrix, orthogonal, memory.get());
}

}  // namespace zeroproof::cuda::host
