// The Newton-Schulz iteration in many orders of summation, forms and roundings against [Bound:newton_schulz], a search for
// counterexamples, and wrong iterations, which exceed it.

#include <doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/float_formats.hpp"
#include "common/base/philox.hpp"
#include "verification/compare/bounds/newton_schulz_step_bound.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;

using Values = std::vector<float>;

/// Uniform in (0, 1), and normal.
class Draw {
 public:
  explicit Draw(std::uint32_t seed) : seed_(seed) {}

  float uniform() {
    return (static_cast<float>(philox4x32({at_++, 0, 0, 41}, seed_)[0]) + 0.5F) * 0x1p-32F;
  }
  float normal() {
    const float a = uniform();
    return std::sqrt(-2 * std::log(a)) * std::cos(6.2831853F * uniform());
  }

 private:
  std::uint32_t seed_, at_ = 0;
};

enum class Sum : std::uint8_t { sequential, reverse, pairs, blocks, lanes };
constexpr std::array<Sum, 5> sums = {Sum::sequential, Sum::reverse, Sum::pairs, Sum::blocks,
                                     Sum::lanes};

float dot(const float* x, const float* y, std::size_t n, Sum sum) {
  if (n == 0) return 0;
  float s = 0;
  switch (sum) {
    case Sum::sequential:
      for (std::size_t q = 0; q < n; ++q) s += x[q] * y[q];
      return s;
    case Sum::reverse:
      for (std::size_t q = n; q-- > 0;) s = std::fma(x[q], y[q], s);
      return s;
    case Sum::pairs:
      if (n == 1) return x[0] * y[0];
      return dot(x, y, n / 2, sum) + dot(x + n / 2, y + n / 2, n - n / 2, sum);
    case Sum::blocks: {
      std::array<float, 8> fold{};
      for (std::size_t b = 0; b < 8; ++b)
        for (std::size_t q = n * b / 8; q < n * (b + 1) / 8; ++q)
          fold[b] = std::fma(x[q], y[q], fold[b]);
      return ((fold[0] + fold[1]) + (fold[2] + fold[3])) +
             ((fold[4] + fold[5]) + (fold[6] + fold[7]));
    }
    case Sum::lanes: {
      std::array<float, 16> lane{};
      for (std::size_t q = 0; q < n; ++q) lane[q % 16] += x[q] * y[q];
      for (const float one : lane) s += one;
      return s;
    }
  }
  return s;
}

/// An implementation of the iteration.
struct Order {
  Sum sum = Sum::sequential;
  bool stores_bf16 =
      true;  ///< with factors bf16: A, B and X are rounded when they are stored, as R28 has it
  bool addend_first = false;  ///< the product of B and X starts at a X
  std::function<float(float)> around = [](float x) {
    return x;
  };  ///< of every stored element, after its rounding
};

struct Shape {
  std::size_t rows, columns;
};

class Iteration {
 public:
  Iteration(const NewtonSchulzOptions& options, const Order& order)
      : options_(options), order_(order) {}

  float stored(float x) const {
    const bool rounds = options_.factors == MatrixFactors::bf16 && order_.stores_bf16;
    return order_.around(rounds ? to_float(to_bf16(x)) : x);
  }

  /// X of the first iteration.
  Values start(const Values& matrix) const {
    float squares = 0;
    for (const float x : matrix) squares += x * x;
    const float norm = std::sqrt(squares), eps = static_cast<float>(options_.eps);
    const float divisor = options_.floor == NormFloor::add ? norm + eps : std::max(norm, eps);
    Values x = matrix;
    for (float& value : x) value = stored(value / divisor);
    return x;
  }

  Values step(const Values& x, Shape shape, int number) const {
    const QuinticPolynomial p = polynomial_of(options_.coefficients, number);
    const auto a = static_cast<float>(p.a), b = static_cast<float>(p.b),
               c = static_cast<float>(p.c);
    const auto [r, columns] = shape;
    Values gram = product(x, x, {r, r}, columns);
    for (std::size_t i = 0; i < r; ++i)  // it stays symmetric, whatever `around` is
      for (std::size_t j = i; j < r; ++j)
        gram[j * r + i] = gram[i * r + j] = stored(gram[i * r + j]);
    Values mixed(r * r);
    const bool fused = options_.form == PolynomialForm::fused;
    Values first = gram;
    if (options_.form == PolynomialForm::scaled_factor)
      for (float& value : first) value = stored(c * value);
    const Values square = product(first, gram, {r, r}, r);  // A is symmetric in every order of dot
    for (std::size_t i = 0; i < mixed.size(); ++i) {
      float second = square[i];
      if (!fused) second = stored(second);
      if (options_.form != PolynomialForm::scaled_factor) second = c * second;
      if (options_.form == PolynomialForm::scaled_product) second = stored(second);
      const float u = b * gram[i];
      mixed[i] = stored((fused ? u : stored(u)) + second);
    }
    Values transposed(x.size());
    for (std::size_t i = 0; i < r; ++i)
      for (std::size_t j = 0; j < columns; ++j) transposed[j * r + i] = x[i * columns + j];
    Values moved = product(mixed, transposed, {r, columns}, r);
    Values result(x.size());
    for (std::size_t i = 0; i < r; ++i) {
      for (std::size_t j = 0; j < columns; ++j) {
        const std::size_t at = i * columns + j;
        const float w = a * x[at];
        float sum = w + moved[at];
        if (order_.addend_first && fused) {
          sum = w;
          for (std::size_t q = 0; q < r; ++q) sum += mixed[i * r + q] * transposed[j * r + q];
        }
        result[at] = stored(fused ? sum : stored(w) + stored(moved[at]));
      }
    }
    return result;
  }

  Values operator()(const Values& matrix, Shape shape, int skipped = -1) const {
    Values x = start(matrix);
    for (int k = 0; k < options_.steps; ++k)
      if (k != skipped) x = step(x, shape, k);
    return x;
  }

 private:
  Values product(const Values& left, const Values& right, Shape shape, std::size_t inner) const {
    Values result(shape.rows * shape.columns);
    for (std::size_t i = 0; i < shape.rows; ++i)
      for (std::size_t j = 0; j < shape.columns; ++j)
        result[i * shape.columns + j] =
            dot(left.data() + i * inner, right.data() + j * inner, inner, order_.sum);
    return result;
  }

  NewtonSchulzOptions options_;
  Order order_;
};

/// Normal numbers; of falling size from row to row; of rank one and noise; a row of zeros; one large element; multiples of 1/2.
Values matrix_of(int kind, Shape shape, Draw& draw) {
  Values x(shape.rows * shape.columns);
  Values row(shape.columns), column(shape.rows);
  for (float& value : row) value = draw.normal();
  for (float& value : column) value = draw.normal();
  for (std::size_t i = 0; i < shape.rows; ++i) {
    for (std::size_t j = 0; j < shape.columns; ++j) {
      const float normal = draw.normal();
      float& value = x[i * shape.columns + j];
      value = kind == 0   ? normal
              : kind == 1 ? normal * std::exp2(-static_cast<float>(i % 24))
              : kind == 2 ? column[i] * row[j] + 1e-3F * normal
              : kind == 3 ? (i == 1 ? 0.0F : normal)
              : kind == 4 ? (i + j == 0 ? 100.0F : 1e-2F * normal)
                          : std::round(normal) + 0.5F;
    }
  }
  return x;
}
constexpr int num_kinds = 6;

double relative(const NewtonSchulzBound& bound) { return bound.distance() / bound.norm(); }

double ratio_of(const NewtonSchulzBound& bound, const Values& result) {
  return bound.ratio({result.data(), result.size()});
}

NewtonSchulzBound bound_of(const NewtonSchulzOptions& options, Shape shape, const Values& matrix) {
  return NewtonSchulzBound::of(options, static_cast<std::int64_t>(shape.rows),
                               static_cast<std::int64_t>(shape.columns),
                               {matrix.data(), matrix.size()}, MatrixRounding::of(options.factors));
}

/// Of iteration `step` from `x`, or from the given matrix for step 0.
NewtonSchulzBound bound_of_step(NewtonSchulzOptions options, int step, Shape shape,
                                const Values& x) {
  options.steps = 1;
  if (step == 0) return bound_of(options, shape, x);
  return NewtonSchulzBound::of_iterations(
      options, step, step + 1, static_cast<std::int64_t>(shape.rows),
      static_cast<std::int64_t>(shape.columns), {x.data(), x.size()},
      MatrixRounding::of(options.factors));
}

/// Ratios of the elements after iteration `step` from `x`, or from the given matrix for step 0.
class StepBounds {
 public:
  StepBounds(const NewtonSchulzOptions& options, int step, Shape shape, const Values& x)
      : bounds_(newton_schulz_step_bounds(options, step, static_cast<std::int64_t>(shape.rows),
                                          static_cast<std::int64_t>(shape.columns),
                                          {x.data(), x.size()},
                                          MatrixRounding::of(options.factors))) {}

  const ElementBound& operator[](std::size_t i) const { return bounds_.at(i); }

  /// The largest; a result that is not judged counts as wrong.
  double ratio(const Values& result) const {
    REQUIRE(result.size() == bounds_.size());
    double most = 0;
    for (std::size_t i = 0; i < result.size(); ++i) {
      if (!bounds_[i].judged) return std::numeric_limits<double>::infinity();
      most = std::max(most, bounds_[i].ratio(result[i]));
    }
    return most;
  }
  /// The root of the mean square of the bounds, relative to that of the result.
  double relative() const {
    long double allowed = 0, exact = 0;
    for (const ElementBound& bound : bounds_) {
      allowed += bound.allowed * bound.allowed;
      exact += bound.exact * bound.exact;
    }
    return static_cast<double>(std::sqrt(allowed / exact));
  }

 private:
  std::vector<ElementBound> bounds_;
};

constexpr std::array<Shape, 5> shapes = {{{1, 1}, {3, 7}, {16, 16}, {24, 40}, {48, 48}}};

struct Found {
  double ratio = 0, bound = 0;  ///< the largest ratio, and the largest bound relative to the result

  void add(const NewtonSchulzBound& bound_of_it, double ratio_of_it) {
    if (!(ratio_of_it <= ratio)) ratio = ratio_of_it;  // keeps a NaN
    bound = std::max(bound, relative(bound_of_it));
  }
};

/// Every shape, kind, form and order.
Found whole(NewtonSchulzOptions options) {
  Found found;
  Draw draw(static_cast<std::uint32_t>(options.steps));
  for (const Shape shape : shapes) {
    for (int kind = 0; kind < num_kinds; ++kind) {
      const Values matrix = matrix_of(kind, shape, draw);
      for (const auto form :
           {PolynomialForm::fused, PolynomialForm::scaled_factor, PolynomialForm::scaled_product}) {
        options.form = form;
        const NewtonSchulzBound bound = bound_of(options, shape, matrix);
        REQUIRE(bound.norm() > 0);
        for (const Sum sum : sums)
          for (const bool stores : {true, false})
            for (const bool first : {true, false})
              found.add(bound, ratio_of(bound, Iteration(options, {.sum = sum,
                                                                   .stores_bf16 = stores,
                                                                   .addend_first = first})(matrix,
                                                                                           shape)));
      }
    }
  }
  return found;
}

}  // namespace

TEST_CASE("NewtonSchulzBound: factors of fp32, five steps: every order is within the bound") {
  for (const NewtonSchulzSetTraits& set : newton_schulz_sets) {
    const Found found = whole({.coefficients = set.set, .factors = MatrixFactors::fp32});
    MESSAGE(set.name << ": largest ratio " << found.ratio << ", largest bound " << found.bound);
    CHECK(found.ratio <= 1);
    CHECK(found.ratio > 0);
  }
}

TEST_CASE(
    "NewtonSchulzBound: factors of bf16, one and two steps: every order is within the bound") {
  for (const int steps : {1, 2}) {
    const Found found = whole({.steps = steps});
    MESSAGE(steps << " steps: largest ratio " << found.ratio << ", largest bound " << found.bound);
    CHECK(found.ratio <= 1);
    CHECK(found.ratio > 0.05);
  }
}

TEST_CASE("newton_schulz_step_bounds: every order, form and set, step by step") {
  for (const MatrixFactors factors : {MatrixFactors::bf16, MatrixFactors::fp32}) {
    for (const NewtonSchulzSetTraits& set : newton_schulz_sets) {
      double ratio = 0, bound = 0;
      Found matrices;
      Draw draw(7);
      for (const Shape shape : shapes) {
        for (int kind = 0; kind < num_kinds; ++kind) {
          const Values matrix = matrix_of(kind, shape, draw);
          NewtonSchulzOptions options{.coefficients = set.set, .factors = factors};
          for (std::size_t i = 0; i < sums.size(); ++i) {  // with another form for every kind
            const std::size_t order = static_cast<std::size_t>(kind) * sums.size() + i;
            options.form = static_cast<PolynomialForm>(order % 3);
            const Iteration iteration(options, {.sum = sums[order % sums.size()],
                                                .stores_bf16 = order % 4 != 3,
                                                .addend_first = order % 2 == 1});
            Values x = matrix;
            for (int k = 0; k < options.steps; ++k) {
              const StepBounds bounds(options, k, shape, x);
              const NewtonSchulzBound whole = bound_of_step(options, k, shape, x);
              x = iteration.step(k == 0 ? iteration.start(matrix) : x, shape, k);
              const double found = bounds.ratio(x);
              if (!(found <= ratio)) ratio = found;  // keeps a NaN
              if (kind == 0) bound = std::max(bound, bounds.relative());
              if (k > 0 && options.form == PolynomialForm::fused)
                matrices.add(whole, ratio_of(whole, x));
              else
                CHECK(ratio_of(whole, x) <= 1);
            }
          }
        }
      }
      MESSAGE(set.name << (factors == MatrixFactors::bf16 ? ", bf16" : ", fp32")
                       << ": largest ratio of an element " << ratio << ", of a matrix "
                       << matrices.ratio << ", largest bound " << bound << " and "
                       << matrices.bound);
      CHECK(ratio <= 1);
      CHECK(ratio > (factors == MatrixFactors::bf16 ? 0.9 : 0.3));
      CHECK(matrices.ratio <= 1);
      CHECK(bound < (factors == MatrixFactors::bf16 ? 2 : 0.002));
      if (factors == MatrixFactors::fp32) continue;
      CHECK(matrices.ratio > 0.2);
      // cans moves the singular value 1, of matrices of rank 1, to 1.99, where its next polynomials are steep.
      if (set.set != NewtonSchulzSet::cans) CHECK(matrices.bound < 0.45);
    }
  }
}

TEST_CASE("newton_schulz_step_bounds: wrong steps are beyond them") {
  Draw draw(5);
  const Shape shape{24, 40};
  const Values matrix = matrix_of(0, shape, draw);
  for (const MatrixFactors factors : {MatrixFactors::bf16, MatrixFactors::fp32}) {
    const NewtonSchulzOptions options{.factors = factors};
    const Iteration right(options, {});
    Values x = right.start(matrix);
    for (int k = 0; k < 3; ++k) {
      const StepBounds bounds(options, k, shape, k == 0 ? matrix : x);
      const Values before = x;
      x = right.step(before, shape, k);
      CHECK(bounds.ratio(x) <= 1);
      // One element that is off by a half in bf16, and by 1 in 200 in fp32, of the root mean square.
      double squares = 0;
      for (const float value : x) squares += double{value} * double{value};
      const auto usual = static_cast<float>(std::sqrt(squares / static_cast<double>(x.size())));
      for (const std::size_t at : {0, 77, 959}) {
        Values one = x;
        one[at] += usual * (factors == MatrixFactors::bf16 ? 0.5F : 0.005F);
        CHECK(bounds.ratio(one) > 1);
      }
      const Values half = right.step({before.begin(), before.begin() + 12 * 40}, {12, 40}, k);
      Values rows = x;
      std::ranges::copy(half, rows.begin());
      CHECK(bounds.ratio(rows) > 1);
      NewtonSchulzOptions other = options;
      other.coefficients = NewtonSchulzSet::quintic;
      CHECK(bounds.ratio(Iteration(other, {}).step(before, shape, k)) > 1);
      CHECK(ratio_of(bound_of_step(options, k, shape, k == 0 ? matrix : before),
                     Iteration(other, {}).step(before, shape, k)) > 1);
    }
  }
}

TEST_CASE("newton_schulz_step_bounds: signs of roundings that a search finds are within them") {
  // As below, one element of one step after another.
  const Shape shape{4, 6};
  const NewtonSchulzOptions options;
  double largest = 0;
  for (int kind = 0; kind < num_kinds; ++kind) {
    Draw draw(19);
    const Values x = Iteration(options, {}).start(matrix_of(kind, shape, draw));
    const StepBounds bounds(options, 1, shape, x);
    std::vector<float> signs(10 + 16 + 24);
    for (float& sign : signs) sign = draw.uniform() < 0.5F ? -1 : 1;
    const auto ratio = [&] {
      std::size_t at = 0;
      const Iteration iteration(options, {.stores_bf16 = false, .around = [&](float value) {
                                            return value * (1 + 0x1.fep-9F * signs[at++]);
                                          }});
      const double found = bounds.ratio(iteration.step(x, shape, 1));
      REQUIRE(at == signs.size());
      return found;
    };
    double best = ratio();
    for (int round = 0; round < 3; ++round) {
      for (float& sign : signs) {
        sign = -sign;
        const double now = ratio();
        if (now > best)
          best = now;
        else
          sign = -sign;
      }
    }
    largest = std::max(largest, best);
  }
  MESSAGE("largest ratio that the search finds: " << largest);
  CHECK(largest <= 1);
  CHECK(largest > 0.5);
}

TEST_CASE("newton_schulz_step_bounds: zeros, NaN, large norms, tall matrices, bad arguments") {
  const NewtonSchulzOptions options;
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = -1 / 0.0F;
  const Values zeros(12, 0.0F);
  Values one = zeros;
  one[5] = 1e-30F;
  for (const int step : {0, 1}) {
    CHECK(StepBounds(options, step, {3, 4}, zeros).ratio(zeros) == 0);
    CHECK(StepBounds(options, step, {3, 4}, zeros).ratio(one) > 1);
    Values bad = zeros;
    bad[7] = nan;
    const StepBounds of_bad(options, step, {3, 4}, bad);
    CHECK(of_bad.ratio(Values(12, nan)) == 0);
    CHECK(of_bad.ratio(zeros) > 1);
  }
  Values infinite = zeros;
  infinite[3] = infinity;
  CHECK(StepBounds(options, 0, {3, 4}, infinite).ratio(Values(12, nan)) == 0);
  CHECK_FALSE(StepBounds(options, 1, {3, 4}, infinite)[0].judged);

  const StepBounds large(options, 0, {3, 4}, Values(12, 1e30F));
  CHECK_FALSE(large[0].judged);
  CHECK(large[0].ratio(0) == 0);
  CHECK(large[0].ratio(0.5) == 0);
  CHECK(large[0].ratio(nan) > 1);
  CHECK(StepBounds(options, 0, {3, 4}, Values(12, 1e-30F))[0].judged);
  CHECK_FALSE(StepBounds(options, 1, {3, 4}, Values(12, 0x1p20F))[0].judged);

  Draw draw(9);
  const Values wide = matrix_of(0, {5, 9}, draw);
  Values tall(45);
  for (std::size_t i = 0; i < 5; ++i)
    for (std::size_t j = 0; j < 9; ++j) tall[j * 5 + i] = wide[i * 9 + j];
  for (const int step : {0, 1}) {
    const StepBounds a(options, step, {5, 9}, wide), b(options, step, {9, 5}, tall);
    CHECK(std::fabs(a[1 * 9 + 7].exact - b[7 * 5 + 1].exact) < 1e-12L);
    CHECK(std::fabs(a[1 * 9 + 7].allowed - b[7 * 5 + 1].allowed) < 1e-12L);
  }
  CHECK_THROWS_AS(StepBounds(options, 0, {3, 5}, zeros), Error);
}

TEST_CASE(
    "NewtonSchulzBound: roundings in the worst direction that a search finds are within the "
    "bound") {
  // Every stored element is moved by up to the unit roundoff of bf16, with signs that a search changes one after another
  // and keeps where the distance grows.
  const Shape shape{6, 8};
  const NewtonSchulzOptions options{.factors = MatrixFactors::fp32};
  MatrixRounding rounding;
  rounding.stored = 0x1p-12;
  double largest = 0;
  for (int kind = 0; kind < num_kinds; ++kind) {
    Draw draw(17);
    const Values matrix = matrix_of(kind, shape, draw);
    const NewtonSchulzBound bound =
        NewtonSchulzBound::of(options, 6, 8, {matrix.data(), matrix.size()}, rounding);
    std::vector<float> signs(6 * 8 * 6 + (21 + 36) * 5);
    for (float& sign : signs) sign = draw.uniform() < 0.5F ? -1 : 1;
    const auto distance = [&] {
      std::size_t at = 0;
      const Iteration iteration(
          options, {.around = [&](float x) { return x * (1 + 0x1.ffp-13F * signs[at++]); }});
      const double ratio = ratio_of(bound, iteration(matrix, shape));
      REQUIRE(at == signs.size());
      return ratio;
    };
    double best = distance();
    for (int round = 0; round < 3; ++round) {
      for (float& sign : signs) {
        sign = -sign;
        const double now = distance();
        if (now > best)
          best = now;
        else
          sign = -sign;
      }
    }
    MESSAGE("kind " << kind << ": " << best);
    largest = std::max(largest, best);
  }
  MESSAGE("largest ratio that the search finds: " << largest);
  CHECK(largest <= 1);
  CHECK(largest > 0.1);
}

TEST_CASE(
    "NewtonSchulzBound: five steps with factors of bf16 have no bound, and a result then is not "
    "judged") {
  Draw draw(3);
  const Shape shape{48, 48};
  const NewtonSchulzBound bound = bound_of({}, shape, matrix_of(0, shape, draw));
  CHECK(bound.vacuous());
  CHECK(ratio_of(bound, Values(48 * 48, std::numeric_limits<float>::infinity())) == 0);
  CHECK_FALSE(bound.element(0).judged);
}

TEST_CASE("NewtonSchulzBound: wrong iterations exceed the bound") {
  Draw draw(5);
  const Shape shape{24, 40};
  const Values matrix = matrix_of(0, shape, draw);
  const NewtonSchulzOptions options{.factors = MatrixFactors::fp32};
  const NewtonSchulzBound bound = bound_of(options, shape, matrix);
  const Iteration right(options, {});
  CHECK(ratio_of(bound, right(matrix, shape)) <= 1);

  SUBCASE("of half the rows") {
    Values result = right(matrix, shape);
    const auto half = static_cast<std::ptrdiff_t>(12 * 40);
    const Values slice = right({matrix.begin(), matrix.begin() + half}, {12, 40});
    std::ranges::copy(slice, result.begin());
    CHECK(ratio_of(bound, result) > 10);
  }
  SUBCASE("of every step but one") {
    for (int skipped = 0; skipped < options.steps; ++skipped)
      CHECK(ratio_of(bound, right(matrix, shape, skipped)) > 10);
  }
  SUBCASE("of another set") {
    CHECK(ratio_of(bound, Iteration({.coefficients = NewtonSchulzSet::quintic,
                                     .factors = MatrixFactors::fp32},
                                    {})(matrix, shape)) > 10);
  }
  SUBCASE("bf16 instead of fp32") { CHECK(ratio_of(bound, Iteration({}, {})(matrix, shape)) > 1); }
  SUBCASE("one element moved by the bound") {
    Values result = right(matrix, shape);
    result[77] += static_cast<float>(2 * bound.distance());
    CHECK(ratio_of(bound, result) > 1);
    CHECK(bound.element(77).ratio(result[77]) > 1);
  }
}

TEST_CASE("NewtonSchulzBound: zeros, NaN, no elements, tall matrices, bad arguments") {
  const NewtonSchulzOptions options{.factors = MatrixFactors::fp32};
  const Values zeros(12, 0.0F);
  const NewtonSchulzBound of_zeros = bound_of(options, {3, 4}, zeros);
  CHECK(ratio_of(of_zeros, zeros) == 0);
  Values other = zeros;
  other[5] = 1e-30F;
  CHECK(ratio_of(of_zeros, other) == std::numeric_limits<double>::infinity());

  const float nan = std::numeric_limits<float>::quiet_NaN();
  Values bad = zeros;
  bad[2] = std::numeric_limits<float>::infinity();
  const NewtonSchulzBound of_bad = bound_of(options, {3, 4}, bad);
  CHECK(ratio_of(of_bad, Values(12, nan)) == 0);
  CHECK(ratio_of(of_bad, zeros) == std::numeric_limits<double>::infinity());
  CHECK(of_bad.element(0).ratio(1) > 1);

  CHECK(ratio_of(bound_of(options, {0, 4}, {}), {}) == 0);
  CHECK(ratio_of(of_zeros, Values(11, 0.0F)) > 1);

  // A tall matrix has the bound and, transposed, the result of the wide one.
  Draw draw(9);
  const Values wide = matrix_of(0, {5, 9}, draw);
  Values tall(45);
  for (std::size_t i = 0; i < 5; ++i)
    for (std::size_t j = 0; j < 9; ++j) tall[j * 5 + i] = wide[i * 9 + j];
  const NewtonSchulzBound a = bound_of(options, {5, 9}, wide), b = bound_of(options, {9, 5}, tall);
  CHECK(std::fabs(a.distance() - b.distance()) < 1e-9 * a.distance());
  CHECK(std::fabs(a.exact()[1 * 9 + 7] - b.exact()[7 * 5 + 1]) < 1e-12);
  CHECK(ratio_of(b, Values(tall)) > 1);

  CHECK_THROWS_AS(bound_of(options, {3, 5}, zeros), Error);
  CHECK_THROWS_AS(bound_of_step(options, 1, {3, 5}, zeros), Error);
}

TEST_CASE("newton_schulz_slope: near 0 it is the product of the first coefficients") {
  for (const NewtonSchulzSetTraits& set : newton_schulz_sets) {
    double product = 1;
    for (int k = 0; k < 5; ++k) product *= polynomial_of(set.set, k).a;
    const double slope = newton_schulz_slope(set.set, 0, 5, 1e-6);
    CHECK(std::fabs(slope / product - 1) < 1e-4);
  }
}

TEST_CASE("matrix_product_bound: any order, bf16 and fp32 factors, infinities and NaN") {
  Draw draw(13);
  double largest = 0;
  for (const std::size_t n : {0, 1, 2, 17, 200}) {
    for (int kind = 0; kind < 300; ++kind) {
      Values x(n), y(n);
      for (std::size_t q = 0; q < n; ++q) {
        x[q] = kind % 3 == 0 && q == 0 ? 1.0F : draw.normal() * (kind % 3 == 0 ? 0x1p-12F : 1.0F);
        y[q] = kind % 3 == 0 && q == 0 ? 1.0F : draw.normal() * (kind % 3 == 0 ? 0x1p-12F : 1.0F);
        if (kind % 3 == 1) x[q] *= 0x1p-70F, y[q] *= 0x1p-72F;
      }
      for (const auto factors : {MatrixFactors::fp32, MatrixFactors::bf16}) {
        Values a = x, b = y;
        if (factors == MatrixFactors::bf16) {
          for (float& value : a) value = to_float(to_bf16(value));
          for (float& value : b) value = to_float(to_bf16(value));
        }
        const ElementBound bound = matrix_product_bound(factors, {x.data(), n}, {y.data(), n});
        REQUIRE(bound.judged);
        for (const Sum sum : sums)
          largest = std::max(largest, bound.ratio(dot(a.data(), b.data(), n, sum)));
      }
    }
  }
  MESSAGE("largest ratio " << largest);
  CHECK(largest <= 1);
  CHECK(largest > 0.5);
  const float infinity = std::numeric_limits<float>::infinity();
  const Values ones(2, 1.0F);
  const auto bound = [&](float p, float q) {
    const Values x = {p, q};
    return matrix_product_bound(MatrixFactors::fp32, {x.data(), 2}, {ones.data(), 2});
  };
  CHECK(bound(infinity, 1).ratio(infinity) == 0);
  CHECK(bound(infinity, 1).ratio(1) > 1);
  CHECK(bound(infinity, -infinity).ratio(NAN) == 0);
  CHECK(bound(NAN, 1).ratio(NAN) == 0);
  CHECK_FALSE(bound(3e38F, -3e38F).judged);
  CHECK(bound(1, 1).ratio(NAN) > 1);
}
