#include <algorithm>
#include <cmath>
#include <string>

#include "common/base/guarded_buffer.hpp"
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
  /// memory: that of newton_schulz_numel() without the transposed matrix.
  Iterations(const Exec& exec, const NewtonSchulzOptions& options, std::int64_t m, std::int64_t n,
             float* memory)
      : exec_(exec),
        options_(options),
        m_(m),
        n_(n),
        gram_(memory),
        scaled_(gram_ + m * m),
        multiplier_(exec,
                    options.form == PolynomialForm::scaled_factor ? scaled_ + m * m : scaled_) {}

  /// X, [m, n], becomes X'. The polynomial takes the place of the Gram matrix.
  void step(const QuinticPolynomial& published, float* x) {
    const PolynomialEnds ends(options_, published);
    const MatrixFactor rows{x, n_, 1, m_};
    const MatrixFactor gram{gram_, m_, 1, m_};
    product(rows, rows, n_, true, ends.gram, gram_);
    if (options_.form == PolynomialForm::scaled_factor) {
      const MatrixKernels& kernels = matrix_kernels(exec_.isa);
      const bool rounds = options_.factors == MatrixFactors::bf16;
      parallel_blocks(exec_, m_ * m_, [&](std::int64_t begin, std::int64_t last) {
        kernels.scale(ends.left_factor, gram_ + begin, scaled_ + begin, rounds, last - begin);
      });
      product({scaled_, m_, 1, m_}, gram, m_, false, ends.polynomial_of(gram_), gram_);
    } else {
      product(gram, gram, m_, true, ends.polynomial_of(gram_), gram_);
    }
    product(gram, {x, 1, n_, n_}, m_, false, ends.next_of(x), x);
  }

 private:
  void product(const MatrixFactor& left, const MatrixFactor& right, std::int64_t inner,
               bool symmetric, const ProductEnd& end, float* to) {
    multiplier_.multiply(left, right, {inner}, options_.factors, symmetric, end, to);
  }

  const Exec& exec_;
  const NewtonSchulzOptions& options_;
  std::int64_t m_, n_;
  float *gram_, *scaled_;
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
  float* const given = orthogonal.data();
  const auto elements = [&](const float* from, auto&& body) {
    parallel_blocks(exec, numel(matrix), [&](std::int64_t begin, std::int64_t end) {
      body(from + begin, given + begin, end - begin);
    });
  };
  const auto transpose = [&](std::int64_t from_rows, std::int64_t from_columns, const float* from,
                             float* to) {
    parallel_units(exec, from_rows, from_columns, [&](std::int64_t begin, std::int64_t end) {
      kernels.transpose(from_rows, from_columns, begin, end, from, to);
    });
  };
  const float* source = matrix.data();
  if (options.rounds_first) {
    elements(source, [&](const float* from, float* to, std::int64_t count) {
      kernels.scale(1.0F, from, to, rounds, count);
    });
    source = given;
  }
  NormLimbs limbs;
  grad_norm_exact_accumulate(exec, {source, matrix.size()}, limbs);
  const double divisor = newton_schulz_divisor(options, grad_norm_finish(limbs));
  elements(source, [&](const float* from, float* to, std::int64_t count) {
    kernels.divide(divisor, from, to, rounds, count);
  });
  float* const x = tall ? memory : given;
  if (tall) transpose(rows, columns, given, x);
  Iterations iterations(exec, options, std::min(rows, columns), std::max(rows, columns),
                        tall ? memory + numel(matrix) : memory);
  for (int k = 0; k < options.steps; ++k)
    iterations.step(polynomial_of(options.coefficients, k), x);
  if (tall) transpose(columns, rows, x, given);
}

void newton_schulz(const Exec& exec, const NewtonSchulzOptions& options, std::int64_t rows,
                   std::int64_t columns, Span<const float> matrix, Span<float> orthogonal) {
  check(options, rows, columns, matrix.size(), orthogonal.size());
  const GuardedBuffer memory(newton_schulz_numel(options, rows, columns), DType::fp32,
                             BufferFill::untouched);
  newton_schulz_in(exec, options, rows, columns, matrix, orthogonal,
                   static_cast<float*>(memory.data()));
}

}  // namespace zeroproof::cuda::host
