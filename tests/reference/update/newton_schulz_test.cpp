// Newton-Schulz by hand (R28): numbers for every set and form, and properties of the result.
//
// The bits in the tables were calculated with exact fractions (Python), each operation of the
// contract rounded once.

#include <array>
#include <cmath>

#include "common/base/float_formats.hpp"
#include "reference/operations.hpp"
#include "tests/reference/support.hpp"

namespace newton_schulz_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

using enum NewtonSchulzSet;
using Bits = std::vector<std::uint32_t>;

std::vector<float> result_of(const NewtonSchulzOptions& options, std::int64_t rows,
                             std::int64_t columns, const std::vector<float>& matrix) {
  std::vector<float> result(matrix.size(), nan32);
  reference::newton_schulz({}, options, rows, columns, matrix, result);
  return result;
}

NewtonSchulzOptions of_set(NewtonSchulzSet set, int steps,
                           MatrixFactors factors = MatrixFactors::bf16) {
  NewtonSchulzOptions options;
  options.coefficients = set;
  options.steps = steps;
  options.factors = factors;
  return options;
}

/// 2 x 3, of rank 2.
const std::vector<float> two_by_three = {3, -1, 2, 0.5, 4, -2};

std::vector<float> transposed(std::int64_t rows, std::int64_t columns,
                              const std::vector<float>& matrix) {
  std::vector<float> result;
  for (std::int64_t j = 0; j < columns; ++j) {
    for (std::int64_t i = 0; i < rows; ++i) result.push_back(matrix[i * columns + j]);
  }
  return result;
}

/// The iteration of one number, written with scalars.
float iterated(const NewtonSchulzOptions& options, float x) {
  const auto round = [&](float value) {
    return options.factors == MatrixFactors::bf16 ? to_float(to_bf16(value)) : value;
  };
  x = round(x);
  for (int step = 0; step < options.steps; ++step) {
    const QuinticPolynomial p = polynomial_of(options.coefficients, step);
    const auto a = static_cast<float>(p.a), b = static_cast<float>(p.b),
               c = static_cast<float>(p.c);
    const float A = round(x * x);
    if (options.form == PolynomialForm::fused) {
      const float B = round(b * A + c * (A * A));
      x = round(a * x + B * x);
      continue;
    }
    const float square = options.form == PolynomialForm::scaled_factor ? round(round(c * A) * A)
                                                                       : round(c * round(A * A));
    const float B = round(round(b * A) + square);
    x = round(round(a * x) + round(B * x));
  }
  return x;
}

constexpr std::array<PolynomialForm, 3> all_forms = {
    PolynomialForm::fused, PolynomialForm::scaled_factor, PolynomialForm::scaled_product};
constexpr std::array<MatrixFactors, 2> all_factors = {MatrixFactors::bf16, MatrixFactors::fp32};

}  // namespace

TEST_CASE("Newton-Schulz: one number, one step by hand") {
  // X = A = S = 1; b + c = -2.7435 is -2.75 in bf16, a - 2.75 = 0.6945 is 178/256.
  CHECK(result_of(of_set(simple, 1), 1, 1, {3}) == std::vector<float>{0.6953125F});
  CHECK(result_of(of_set(simple, 1), 1, 1, {-3}) == std::vector<float>{-0.6953125F});
  // The polynomial of deepseekv4 from the ninth step on keeps 1: 2 - 1.5 + 0.5, like the eighth of
  // polar_express.
  const float eighth = result_of(of_set(deepseekv4, 8), 1, 1, {3})[0];
  CHECK(eighth != 1);
  CHECK(std::fabs(result_of(of_set(deepseekv4, 13), 1, 1, {3})[0] - 1) < 0x1p-8F);
}

TEST_CASE("Newton-Schulz: every set on one matrix") {
  struct Row {
    NewtonSchulzSet set;
    Bits six_bf16;  // steps
    Bits two_fp32;
  };
  const std::array<Row, 7> table = {
      {{simple,
        {0x3F6F0000, 0x3DB00000, 0x3ED10000, 0x3EC40000, 0x3F360000, 0xBE580000},
        {0x3F500414, 0xBC85CFAC, 0x3ECC60F4, 0x3E9185B0, 0x3F3F2594, 0xBE903BD4}},
       {quintic,
        {0x3D8F0000, 0xBCD20000, 0x3D460000, 0x3C5B0000, 0x3DD70000, 0xBD580000},
        {0x3F332354, 0xBE902292, 0x3EFCB024, 0x3DB51170, 0x3F7F3278, 0xBF040BDA}},
       {polar_express,
        {0x3F610000, 0xBDA60000, 0x3EEE0000, 0x3E8C0000, 0x3F630000, 0xBEBA0000},
        {0x3E8E3230, 0xBE85E4EC, 0x3E8F3C10, 0xBD56F000, 0x3F180474, 0xBEB727CD}},
       {polar_express_dion,
        {0x3F610000, 0xBDF00000, 0x3EFE0000, 0x3E810000, 0x3F710000, 0xBED10000},
        {0x3E72C2C0, 0xBE56B2B0, 0x3E6CC1B0, 0xBD16FE00, 0x3EFA5704, 0xBE95400C}},
       {cans,
        {0x3F610000, 0xBE090000, 0x3EF70000, 0x3E770000, 0x3F720000, 0xBECA0000},
        {0x3E39E260, 0x3CBD3680, 0x3D97F5A0, 0x3DA21020, 0x3E0692C0, 0xBD11DD30}},
       {aol,
        {0xBF7B0000, 0x3D7E0000, 0xBF020000, 0xBE9D0000, 0xBF710000, 0x3EC30000},
        {0x3F38DEF0, 0x3C908700, 0x3EAC6AE0, 0x3E8AF4E8, 0x3F1EFC6F, 0xBE5EBAF0}},
       {deepseekv4,
        {0x3F6F0000, 0x3DB00000, 0x3ED10000, 0x3EC40000, 0x3F360000, 0xBE580000},
        {0x3F500414, 0xBC85CFAC, 0x3ECC60F4, 0x3E9185B0, 0x3F3F2594, 0xBE903BD4}}}};
  for (const Row& row : table) {
    INFO(newton_schulz_sets[static_cast<std::size_t>(row.set)].name);
    CHECK(bits(result_of(of_set(row.set, 6), 2, 3, two_by_three)) == row.six_bf16);
    CHECK(bits(result_of(of_set(row.set, 2, MatrixFactors::fp32), 2, 3, two_by_three)) ==
          row.two_fp32);
  }
}

TEST_CASE("Newton-Schulz: every form, with factors of both formats, is another rounding") {
  const std::array<std::array<Bits, 2>, 3> table = {
      {{{{0x3F280000, 0xBE650000, 0x3EE40000, 0x3DE20000, 0x3F660000, 0xBEE60000},
         {0x3F26DEA8, 0xBE603F80, 0x3EDEFC00, 0x3DDC70F0, 0x3F5F12E0, 0xBEDF63BA}}},
       {{{0x3F340000, 0xBE6E0000, 0x3EF00000, 0x3DC00000, 0x3F5C0000, 0xBEDA0000},
         {0x3F26DEB0, 0xBE603F98, 0x3EDEFC12, 0x3DDC70C0, 0x3F5F12DE, 0xBEDF63C2}}},
       {{{0x3F300000, 0xBE740000, 0x3EEA0000, 0x3DE00000, 0x3F6A0000, 0xBEEB0000},
         {0x3F26DEA8, 0xBE603F80, 0x3EDEFC00, 0x3DDC70F0, 0x3F5F12E0, 0xBEDF63BA}}}}};
  for (std::size_t form = 0; form < 3; ++form) {
    for (std::size_t factors = 0; factors < 2; ++factors) {
      NewtonSchulzOptions options = of_set(simple, 5, all_factors[factors]);
      options.form = all_forms[form];
      CHECK(bits(result_of(options, 2, 3, two_by_three)) == table[form][factors]);
    }
  }
}

TEST_CASE("Newton-Schulz: eleven columns, which are eight blocks of different lengths") {
  const std::vector<float> wide = {-1, 2,  7,  -9, 5, -2, -8, -4, -6, 2,  6,   //
                                   -2, 3,  8,  -6, 9, -2, -9, -3, 4,  -1, -4,  //
                                   3,  -4, -7, -5, 5, -5, -5, -9, -9, -3, -3};
  CHECK(bits(result_of(of_set(polar_express_dion, 5), 3, 11, wide)) ==
        Bits{0xBD840000, 0x3E010000, 0x3ED70000, 0xBEFA0000, 0x3E0D0000, 0xBD690000, 0xBEB50000,
             0xBE110000, 0xBED80000, 0x3E4A0000, 0x3F0E0000, 0xBDFE0000, 0x3E330000, 0x3EDB0000,
             0xBE690000, 0x3F020000, 0xBDB80000, 0xBEE70000, 0xBDE10000, 0x3ED20000, 0xBDCB0000,
             0xBEC20000, 0x3E4B0000, 0xBE8B0000, 0xBF040000, 0xBE580000, 0x3E7D0000, 0xBE910000,
             0xBE5C0000, 0xBF020000, 0xBEFF0000, 0xBE500000, 0xBE6E0000});
  CHECK(bits(result_of(of_set(polar_express_dion, 5, MatrixFactors::fp32), 3, 11, wide)) ==
        Bits{0xBD83F44A, 0x3E0610A4, 0x3EE017FA, 0xBF0076C3, 0x3DBE4A2A, 0xBD3044B7, 0xBEAC9BAC,
             0xBE01B843, 0xBEF7B69E, 0x3E6A9DE2, 0x3F2354F3, 0xBDF9B5C0, 0x3E2DA8FA, 0x3ED20674,
             0xBE5C8EB6, 0x3F0E60E0, 0xBDD3C76D, 0xBEF21D99, 0xBE042E3C, 0x3EECCA80, 0xBE0AD1A3,
             0xBEF3E33A, 0x3E4A964A, 0xBE8B3F44, 0xBF048AA8, 0xBE5053EA, 0x3E844148, 0xBE93DA4F,
             0xBE6108E0, 0xBF039304, 0xBEF5D9B0, 0xBE5B4B1C, 0xBE89BCD8});
}

TEST_CASE("Newton-Schulz: of a diagonal matrix, every number is iterated alone") {
  // N = 5, and products with 0 add nothing.
  for (const NewtonSchulzSetTraits& set : newton_schulz_sets) {
    for (const int steps : {1, 2, 5, 8, 9, 12, 64}) {
      for (const PolynomialForm form : all_forms) {
        for (const MatrixFactors factors : all_factors) {
          NewtonSchulzOptions options = of_set(set.set, steps, factors);
          options.form = form;
          const std::vector<float> O = result_of(options, 2, 2, {3, 0, 0, -4});
          CHECK(bits(O[0]) == bits(iterated(options, static_cast<float>(3.0 / 5))));
          CHECK(bits(O[3]) == bits(iterated(options, static_cast<float>(-4.0 / 5))));
          CHECK((O[1] == 0 && O[2] == 0));
        }
      }
    }
  }
}

TEST_CASE("Newton-Schulz: polynomials in the order of their set") {
  const auto p = polynomial_of;
  for (const NewtonSchulzSet set : {simple, quintic, aol}) {
    const auto count =
        static_cast<int>(newton_schulz_sets[static_cast<std::size_t>(set)].polynomials.size());
    for (int step = 0; step < 3 * count; ++step) CHECK(p(set, step) == p(set, step % count));
  }
  CHECK(p(simple, 7) == QuinticPolynomial{3.4445, -4.7750, 2.0315});
  CHECK(p(quintic, 5) == QuinticPolynomial{4.0848, -6.8946, 2.9270});
  CHECK(p(quintic, 9) == QuinticPolynomial{2.8366, -3.0525, 1.2012});
  CHECK(p(polar_express, 0) == QuinticPolynomial{8.2051, -22.9019, 16.4607});
  for (const int step : {7, 8, 63})
    CHECK(p(polar_express, step) == QuinticPolynomial{1.8750, -1.2500, 0.3750});
  for (const int step : {4, 5, 63}) {
    CHECK(p(polar_express_dion, step).a == 2.3465413258596377);
    CHECK(p(cans, step) == QuinticPolynomial{2.2737, -1.6447, 0.4162});
  }
  CHECK(p(deepseekv4, 7) == p(simple, 0));
  for (const int step : {8, 9, 10, 63})
    CHECK(p(deepseekv4, step) == QuinticPolynomial{2, -1.5, 0.5});
  ZP_CHECK_INVALID(polynomial_of(static_cast<NewtonSchulzSet>(7), 0));
}

TEST_CASE("Newton-Schulz: the transpose has the transposed result") {
  for (const auto& [rows, columns] : {std::array{1, 5}, std::array{3, 7}, std::array{9, 10}}) {
    const std::vector<float> wide = random_values(rows * columns, 11, 2);
    for (const MatrixFactors factors : all_factors) {
      const NewtonSchulzOptions options = of_set(polar_express_dion, 5, factors);
      const std::vector<float> tall =
          result_of(options, columns, rows, transposed(rows, columns, wide));
      CHECK(bits(transposed(columns, rows, tall)) == bits(result_of(options, rows, columns, wide)));
    }
  }
}

TEST_CASE("Newton-Schulz: rows become orthonormal") {
  // The last polynomial of the set has the fixed point 1, where its slope is 0: only the rounding
  // errors of one step remain. Its longest sum has 16 terms; 64 roundings of 2^-24 bound the four
  // products on the way to an element of O O^T.
  constexpr std::int64_t rows = 6, columns = 16;
  const std::vector<float> O = result_of(of_set(polar_express, 16, MatrixFactors::fp32), rows,
                                         columns, random_values(rows * columns, 3, 2));
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < rows; ++j) {
      double dot = 0;
      for (std::int64_t q = 0; q < columns; ++q)
        dot += double{O[i * columns + q]} * double{O[j * columns + q]};
      CHECK(std::fabs(dot - (i == j ? 1 : 0)) < 0x1p-18);
    }
  }
}

TEST_CASE("Newton-Schulz: a matrix of rank 1 keeps its rank") {
  const Bits of_bf16 = {0x3E0A0000, 0x3E8A0000, 0x3E8A0000, 0x3F0A0000};
  CHECK(bits(result_of({}, 2, 2, {1, 2, 2, 4})) == of_bf16);
  const Bits of_fp32 = {0x3E0EA15C, 0x3E8EA15C, 0x3E8EA15C, 0x3F0EA15C};
  CHECK(bits(result_of(of_set(simple, 5, MatrixFactors::fp32), 2, 2, {1, 2, 2, 4})) == of_fp32);
}

TEST_CASE("Newton-Schulz: the scale of the matrix has no effect above eps") {
  const Bits expected = bits(result_of({}, 2, 3, two_by_three));
  for (const float scale : {0x1p-23F, 0x1p23F, 0x1p100F}) {
    std::vector<float> scaled;
    for (const float value : two_by_three) scaled.push_back(value * scale);
    CHECK(bits(result_of({}, 2, 3, scaled)) == expected);
  }
  std::vector<float> small, large;
  for (const float value : two_by_three) {
    small.push_back(static_cast<float>(double{value} * 1e-30));
    large.push_back(static_cast<float>(double{value} * 1e30));
  }
  NewtonSchulzOptions options;
  options.eps = 0x1p-126;
  CHECK(bits(result_of(options, 2, 3, small)) == expected);
  CHECK(bits(result_of({}, 2, 3, large)) == expected);
  // Below eps the matrix is divided by eps: the result is the linear term alone.
  CHECK(bits(result_of({}, 2, 3, small)) ==
        Bits{0x1E890000, 0x9DB70000, 0x1E370000, 0x1D370000, 0x1EB70000, 0x9E370000});
}

TEST_CASE("Newton-Schulz: the floor is a maximum or a sum") {
  NewtonSchulzOptions options = of_set(simple, 1, MatrixFactors::fp32);
  const auto first_of = [&](float x) { return result_of(options, 1, 1, {x})[0]; };
  options.eps = 3;
  CHECK(bits(first_of(4)) == bits(iterated(options, 1)));        // 4 / 4
  CHECK(bits(first_of(3)) == bits(iterated(options, 1)));        // 3 / 3
  CHECK(bits(first_of(1.5F)) == bits(iterated(options, 0.5F)));  // 1.5 / 3
  options.floor = NormFloor::add;
  CHECK(bits(first_of(3)) == bits(iterated(options, 0.5F)));  // 3 / (3 + 3)
  CHECK(bits(first_of(-9)) == bits(iterated(options, -0.75F)));
  // The quotient of fp64 is rounded to fp32, then as factors are: 1 / (1 + 2^-24) is a tie.
  options.eps = 0x1p-24;
  CHECK(bits(first_of(1)) == bits(iterated(options, 1 - 0x1p-24F)));
}

TEST_CASE("Newton-Schulz: zeros of either sign become +0") {
  for (const NormFloor floor : {NormFloor::clamp, NormFloor::add}) {
    for (const PolynomialForm form : all_forms) {
      NewtonSchulzOptions options;
      options.floor = floor;
      options.form = form;
      CHECK(bits(result_of(options, 2, 2, {0, -0.0F, 0, -0.0F})) == Bits(4, 0));
    }
  }
}

TEST_CASE("Newton-Schulz: a NaN or an infinity makes every element NaN") {
  for (const float special : {nan32, inf32, -inf32}) {
    for (const PolynomialForm form : all_forms) {
      for (const NormFloor floor : {NormFloor::clamp, NormFloor::add}) {
        for (const auto& [rows, columns] :
             {std::array{1, 1}, std::array{1, 6}, std::array{6, 1}, std::array{3, 4}}) {
          std::vector<float> matrix(static_cast<std::size_t>(rows * columns), 1.0F);
          matrix.back() = special;
          NewtonSchulzOptions options = of_set(simple, 1);
          options.form = form;
          options.floor = floor;
          CHECK(bits(result_of(options, rows, columns, matrix)) ==
                Bits(matrix.size(), bits(nan32)));
        }
      }
    }
  }
}

TEST_CASE("Newton-Schulz: rounds_first takes the norm of rounded elements") {
  const std::vector<float> matrix = {1 + 0x1p-9F, 3, 1};
  NewtonSchulzOptions options;
  CHECK(bits(result_of(options, 1, 3, matrix)) == Bits{0x3E540000, 0x3F1F0000, 0x3E530000});
  options.rounds_first = true;
  CHECK(bits(result_of(options, 1, 3, matrix)) == Bits{0x3E530000, 0x3F1F0000, 0x3E530000});
  // Infinite in bf16.
  CHECK(bits(result_of(options, 1, 2, {3.4e38F, 1})) == Bits(2, bits(nan32)));
  options.rounds_first = false;
  CHECK(std::isfinite(result_of(options, 1, 2, {3.4e38F, 1})[0]));
  options.rounds_first = true;
  options.factors = MatrixFactors::fp32;  // nothing is rounded
  CHECK(std::isfinite(result_of(options, 1, 2, {3.4e38F, 1})[0]));
}

TEST_CASE("Newton-Schulz: in place, and without elements") {
  std::vector<float> matrix = two_by_three;
  reference::newton_schulz({}, {}, 2, 3, matrix, matrix);
  CHECK(bits(matrix) == bits(result_of({}, 2, 3, two_by_three)));
  matrix = transposed(2, 3, two_by_three);
  reference::newton_schulz({}, {}, 3, 2, matrix, matrix);
  CHECK(bits(transposed(3, 2, matrix)) == bits(result_of({}, 2, 3, two_by_three)));
  CHECK(result_of({}, 0, 3, {}).empty());
  CHECK(result_of({}, 3, 0, {}).empty());
}

TEST_CASE("Newton-Schulz: options and extents outside of their ranges are rejected") {
  const auto run = [](const NewtonSchulzOptions& options) { result_of(options, 1, 2, {3, 4}); };
  for (const int steps : {-1, 0, 65}) ZP_CHECK_INVALID(run(of_set(simple, steps)));
  for (const double eps : {0.0, -1.0, 0x1p-127, inf64, nan64}) {
    NewtonSchulzOptions options;
    options.eps = eps;
    ZP_CHECK_INVALID(run(options));
    ZP_CHECK_INVALID(result_of(options, 0, 0, {}));
  }
  ZP_CHECK_INVALID(run(of_set(static_cast<NewtonSchulzSet>(7), 1)));
  ZP_CHECK_INVALID(result_of({}, 1, 3, {3, 4}));
  ZP_CHECK_INVALID(result_of({}, -1, -2, {3, 4}));
  ZP_CHECK_INVALID(result_of({}, 0, 2, {3, 4}));
  std::vector<float> three(3);
  ZP_CHECK_INVALID(reference::newton_schulz({}, {}, 1, 2, std::vector<float>{3, 4}, three));
}

}  // namespace newton_schulz_test
