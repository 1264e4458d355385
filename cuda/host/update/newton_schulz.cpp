#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "cuda/host/base/parallel_units.hpp"
#include "cuda/host/operations.hpp"
#include "cuda/host/update/matrix_product.hpp"
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

/// D of R28.
double divisor_of(const NewtonSchulzOptions& options, double norm) {
  if (std::isnan(norm)) return norm;
  if (options.floor == NormFloor::add) return norm + options.eps;
  return norm > options.eps ? norm : options.eps;
}

using Matrix = std::vector<float>;

/// The buffers of the iterations on an m x n matrix, m <= n.
class Iterations {
 public:
  Iterations(const Exec& exec, const NewtonSchulzOptions& options, std::int64_t m, std::int64_t n)
      : exec_(exec),
        options_(options),
        rounds_(options.factors == MatrixFactors::bf16),
        m_(m),
        n_(n),
        next_(static_cast<std::size_t>(m * n)),
        gram_(static_cast<std::size_t>(m * m)),
        polynomial_(gram_.size()),
        scaled_(options.form == PolynomialForm::scaled_factor ? gram_.size() : 0),
        multiplier_(exec) {}

  /// X of one step becomes X'.
  void step(const QuinticPolynomial& published, Matrix& x) {
    const float a = static_cast<float>(published.a);
    const float b = static_cast<float>(published.b);
    const float c = static_cast<float>(published.c);
    const bool each = rounds_ && options_.form != PolynomialForm::fused;
    const MatrixFactor rows{x.data(), n_, 1, m_};
    const MatrixFactor gram{gram_.data(), m_, 1, m_};
    product(rows, rows, n_, true, {.rounds_last = rounds_}, gram_);
    ProductEnd end{
        .addend_factor = b, .addend = gram_.data(), .rounds_each = each, .rounds_last = rounds_};
    if (options_.form == PolynomialForm::scaled_factor) {
      const MatrixKernels& kernels = matrix_kernels(exec_.isa);
      parallel_blocks(exec_, m_ * m_, [&](std::int64_t begin, std::int64_t last) {
        kernels.scale(c, gram_.data() + begin, scaled_.data() + begin, rounds_, last - begin);
      });
      product({scaled_.data(), m_, 1, m_}, gram, m_, false, end, polynomial_);
    } else {
      end.factor = c;
      product(gram, gram, m_, true, end, polynomial_);
    }
    product({polynomial_.data(), m_, 1, m_}, {x.data(), 1, n_, n_}, m_, false,
            {.addend_factor = a, .addend = x.data(), .rounds_each = each, .rounds_last = rounds_},
            next_);
    std::swap(x, next_);
  }

 private:
  /// Factors have been rounded already.
  void product(const MatrixFactor& left, const MatrixFactor& right, std::int64_t inner,
               bool symmetric, const ProductEnd& end, Matrix& to) {
    multiplier_.multiply(left, right, inner, false, symmetric, end, to.data());
  }

  const Exec& exec_;
  const NewtonSchulzOptions& options_;
  bool rounds_;
  std::int64_t m_, n_;
  Matrix next_, gram_, polynomial_, scaled_;
  MatrixMultiplier multiplier_;
};

}  // namespace

void newton_schulz(const Exec& exec, const NewtonSchulzOptions& options, std::int64_t rows,
                   std::int64_t columns, Span<const float> matrix, Span<float> orthogonal) {
  check(options, rows, columns, matrix.size(), orthogonal.size());
  if (matrix.empty()) return;
  const MatrixKernels& kernels = matrix_kernels(exec.isa);
  const bool rounds = options.factors == MatrixFactors::bf16;
  const bool tall = rows > columns;
  Matrix x(matrix.begin(), matrix.end());
  const auto elements = [&](auto&& body) {
    parallel_blocks(exec, numel(matrix), [&](std::int64_t begin, std::int64_t end) {
      body(x.data() + begin, end - begin);
    });
  };
  const auto transposed = [&](std::int64_t from_rows, std::int64_t from_columns, float* to) {
    parallel_units(exec, from_rows, from_columns, [&](std::int64_t begin, std::int64_t end) {
      kernels.transpose(from_rows, from_columns, begin, end, x.data(), to);
    });
  };
  if (options.rounds_first) {
    elements([&](float* at, std::int64_t count) { kernels.scale(1.0F, at, at, rounds, count); });
  }
  NormLimbs limbs;
  grad_norm_exact_accumulate(exec, x, limbs);
  const double divisor = divisor_of(options, grad_norm_finish(limbs));
  elements([&](float* at, std::int64_t count) { kernels.divide(divisor, at, at, rounds, count); });
  if (tall) {
    Matrix turned(x.size());
    transposed(rows, columns, turned.data());
    std::swap(x, turned);
  }
  Iterations iterations(exec, options, std::min(rows, columns), std::max(rows, columns));
  for (int k = 0; k < options.steps; ++k) {
    iterations.step(polynomial_of(options.coefficients, k), x);
  }
  if (tall) {
    transposed(columns, rows, orthogonal.data());
  } else {
    std::copy(x.begin(), x.end(), orthogonal.begin());
  }
}

}  // namespace zeroproof::cuda::host
