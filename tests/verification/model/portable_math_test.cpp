#include <doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/philox.hpp"
#include "common/layout/flat_layout.hpp"
#include "verification/model/blocked_sum.hpp"
#include "verification/model/byte_gpt_layers.hpp"
#include "verification/model/instruction_set.hpp"
#include "verification/model/matmul.hpp"
#include "verification/model/portable_math.hpp"

namespace portable_math_test {

using zeroproof::Philox;
using namespace zeroproof::workload;

namespace {

constexpr float infinity32 = std::numeric_limits<float>::infinity();
constexpr double infinity64 = std::numeric_limits<double>::infinity();

std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }
std::uint64_t bits(double x) { return std::bit_cast<std::uint64_t>(x); }

// Distance in units in the last place of `exact`. Infinity where one is NaN and the other is not,
// or where one is infinite and the other does not round to it.
double ulps(float got, double exact) {
  if (std::isnan(exact) || std::isnan(got))
    return std::isnan(exact) && std::isnan(got) ? 0 : infinity64;
  const auto rounded = static_cast<float>(exact);
  if (std::isinf(rounded) || std::isinf(got)) return rounded == got ? 0 : infinity64;
  int exponent = 0;
  std::frexp(exact, &exponent);
  return std::fabs(got - exact) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

double ulps(double got, double exact) {
  if (std::isnan(exact) || std::isnan(got))
    return std::isnan(exact) && std::isnan(got) ? 0 : infinity64;
  if (std::isinf(exact) || std::isinf(got)) return exact == got ? 0 : infinity64;
  int exponent = 0;
  std::frexp(exact, &exponent);
  return std::fabs(got - exact) / std::ldexp(1.0, std::max(exponent - 53, -1074));
}

// Random significand and sign, exponent evenly in [low, high].
double random_double(std::uint64_t index, int low, int high) {
  const Philox philox(7);
  const std::uint64_t word =
      std::uint64_t{philox.word(2 * index)} << 32 | philox.word(2 * index + 1);
  const std::uint64_t exponent =
      1023 + static_cast<std::uint64_t>(
                 low + static_cast<int>(word % static_cast<std::uint64_t>(high - low + 1)));
  return std::bit_cast<double>((word & 0x800FFFFFFFFFFFFFU) | exponent << 52);
}

}  // namespace

TEST_CASE("portable math: exp_f32 and tanh_f32 are correctly rounded on every 1021st fp32 value") {
  // 1021 is prime, so every exponent and all low bits occur. libm's fp64 functions are exact to
  // 1e-8 fp32 units, which is the tolerance above one half.
  double worst_exp = 0;
  double worst_tanh = 0;
  for (std::uint64_t i = 0; i <= 0xFFFFFFFFU; i += 1021) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(i));
    worst_exp = std::max(worst_exp, ulps(exp_f32(x), std::exp(double{x})));
    worst_tanh = std::max(worst_tanh, ulps(tanh_f32(x), std::tanh(double{x})));
  }
  CHECK(worst_exp <= 0.50000001);
  CHECK(worst_tanh <= 0.50000001);
}

TEST_CASE("portable math: exp_f64, tanh_f64 and log_f64 are within the stated units of libm") {
  // The header states 1.2, 3.4 and 2.1 against long double; libm adds at most one unit of its own.
  double worst_exp = 0;
  double worst_tanh = 0;
  double worst_log = 0;
  for (std::uint64_t i = 0; i < 300000; ++i) {
    const double x = random_double(i, -60, 10);
    worst_exp = std::max(worst_exp, ulps(exp_f64(x), std::exp(x)));
    worst_tanh = std::max(worst_tanh, ulps(tanh_f64(x), std::tanh(x)));
    for (const double y :
         {std::fabs(x), 1 + x * 0x1p-12, std::fabs(random_double(i, -1022, 1023))}) {
      worst_log = std::max(worst_log, ulps(log_f64(y), std::log(y)));
    }
  }
  CHECK(worst_exp <= 2.2);
  CHECK(worst_tanh <= 4.4);
  CHECK(worst_log <= 3.1);
}

TEST_CASE("portable math: exp, tanh and log of special values") {
  const float nan32 = std::numeric_limits<float>::quiet_NaN();
  const double nan64 = std::numeric_limits<double>::quiet_NaN();
  CHECK(std::isnan(exp_f32(nan32)));
  CHECK(std::isnan(tanh_f32(nan32)));
  CHECK(std::isnan(tanh_f32(-nan32)));
  CHECK(std::isnan(exp_f64(nan64)));
  CHECK(std::isnan(tanh_f64(nan64)));
  for (const float zero : {0.0F, -0.0F}) {
    CHECK(bits(exp_f32(zero)) == bits(1.0F));
    CHECK(bits(tanh_f32(zero)) == bits(zero));
    CHECK(bits(exp_f64(zero)) == bits(1.0));
    CHECK(bits(tanh_f64(zero)) == bits(double{zero}));
  }
  for (const float large : {infinity32, std::numeric_limits<float>::max(), 1e6F}) {
    CHECK(bits(exp_f32(large)) == bits(infinity32));
    CHECK(bits(exp_f32(-large)) == bits(0.0F));
    CHECK(bits(tanh_f32(large)) == bits(1.0F));
    CHECK(bits(tanh_f32(-large)) == bits(-1.0F));
    CHECK(bits(exp_f64(large)) == bits(infinity64));
    CHECK(bits(exp_f64(-large)) == bits(0.0));
    CHECK(bits(tanh_f64(large)) == bits(1.0));
    CHECK(bits(tanh_f64(-large)) == bits(-1.0));
  }
  const float smallest = std::numeric_limits<float>::denorm_min();
  CHECK(bits(tanh_f32(smallest)) == bits(smallest));
  CHECK(bits(tanh_f64(std::numeric_limits<double>::denorm_min())) == 1);
  CHECK(bits(exp_f32(smallest)) == bits(1.0F));
  CHECK(log_f64(1) == 0);
  CHECK(log_f64(0) == -infinity64);
  CHECK(log_f64(infinity64) == infinity64);
  CHECK(std::isnan(log_f64(-1)));
  CHECK(std::isnan(log_f64(nan64)));
  CHECK(ulps(log_f64(std::numeric_limits<double>::denorm_min()), std::log(0x1p-1074)) <= 1);
}

TEST_CASE("portable math: exp and tanh are monotonic near the ends of their ranges") {
  const auto grows = [](auto function, auto from, auto to) {
    int steps_back = 0;
    auto last = function(from);
    for (auto x = from; x < to; x = std::nextafter(x, to)) {
      const auto value = function(x);
      if (!(value >= last)) ++steps_back;
      last = value;
    }
    return steps_back == 0;
  };
  CHECK(grows(exp_f32, -104.1F, -103.0F));  // subnormal results, then 0
  CHECK(grows(exp_f32, 88.6F, 89.1F));      // the last finite results, then infinity
  CHECK(grows(tanh_f32, 8.9F, 9.2F));       // becomes 1
  CHECK(grows(tanh_f32, -9.2F, -8.9F));
  CHECK(exp_f32(88.7228F) < infinity32);
  CHECK(exp_f32(88.7229F) == infinity32);
  CHECK(exp_f32(-103.9720F) == std::numeric_limits<float>::denorm_min());
  CHECK(exp_f32(-103.9730F) == 0);
  CHECK(exp_f64(709.78) < infinity64);
  CHECK(exp_f64(709.79) == infinity64);
  CHECK(exp_f64(-745.13) == std::numeric_limits<double>::denorm_min());
  CHECK(exp_f64(-745.14) == 0);
}

TEST_CASE(
    "portable math: exp_f32 and tanh_f32 have the same bits in vector loops of every instruction "
    "set") {
  constexpr std::size_t count = 4099;  // not a multiple of any vector
  std::vector<float> in(count);
  for (std::size_t i = 0; i < count; ++i) in[i] = Philox(3).bell(i) * 8;
  in[5] = infinity32;
  in[6] = -0.0F;
  in[7] = std::numeric_limits<float>::denorm_min();
  for (const InstructionSet set : usable_instruction_sets()) {
    CAPTURE(name(set));
    std::vector<float> exps(count);
    std::vector<float> tanhs(count);
    run_on(set, [&](auto) ZP_INLINE_BODY {
      for (std::size_t i = 0; i < count; ++i) {
        exps[i] = exp_f32(in[i]);
        tanhs[i] = tanh_f32(in[i]);
      }
    });
    int different = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (bits(exps[i]) != bits(exp_f32(in[i])) || bits(tanhs[i]) != bits(tanh_f32(in[i])))
        ++different;
    }
    CHECK(different == 0);
  }
}

// R18, literally.
template <class Real>
static Real literal_sum(const std::vector<Real>& terms) {
  const auto n = static_cast<std::int64_t>(terms.size());
  std::array<Real, 8> s{};
  for (std::int64_t b = 0; b < 8; ++b) {
    for (std::int64_t i = 0; i < n; ++i) {
      if (i >= n * b / 8 && i < n * (b + 1) / 8) s[b] += terms[i];
    }
  }
  return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
}

TEST_CASE("blocked_sum: follows R18 for every length") {
  for (std::int64_t n = 0; n <= 40; ++n) {
    CAPTURE(n);
    std::vector<float> terms(n);
    for (std::size_t i = 0; i < terms.size(); ++i)
      terms[i] = Philox(11).bell(i) * std::ldexp(1.0F, static_cast<int>(i * 7 % 13));
    const auto term = [&](std::int64_t i) { return terms[i]; };
    CHECK(bits(blocked_sum<float>(n, term)) == bits(literal_sum(terms)));
    for (std::int64_t limit = 0; limit <= n; ++limit) {
      CAPTURE(limit);
      std::vector<float> shortened = terms;
      std::fill(shortened.begin() + limit, shortened.end(), 0.0F);
      CHECK(bits(blocked_prefix_sum<float>(n, limit, term)) == bits(literal_sum(shortened)));
    }
  }
  const std::vector<float> minus_zeros(3, -0.0F);
  CHECK(bits(blocked_sum<float>(3, [&](std::int64_t i) { return minus_zeros[i]; })) == bits(0.0F));
}

template <class Real>
static void check_matmul(InstructionSet set, std::int64_t rows, std::int64_t depth,
                         std::int64_t columns, bool left_transposed, bool right_transposed) {
  CAPTURE(name(set));
  CAPTURE(rows);
  CAPTURE(depth);
  CAPTURE(columns);
  CAPTURE(left_transposed);
  CAPTURE(right_transposed);
  std::vector<Real> left(rows * depth);
  std::vector<Real> right(depth * columns);
  for (std::size_t i = 0; i < left.size(); ++i) left[i] = Philox(1).bell(i);
  for (std::size_t i = 0; i < right.size(); ++i) right[i] = Philox(2).bell(i);
  const Matrix<Real> a = left_transposed ? Matrix<Real>(left.data(), depth, rows).transposed()
                                         : Matrix<Real>(left.data(), rows, depth);
  const Matrix<Real> b = right_transposed ? Matrix<Real>(right.data(), columns, depth).transposed()
                                          : Matrix<Real>(right.data(), depth, columns);
  // One extra column on either side, which must not change.
  const std::int64_t stride = columns + 2;
  std::vector<Real> out(rows * stride, Real{-7});
  matmul(set, a, b, Matrix<Real>(out.data(), rows, stride).column_range(1, columns));
  int different = 0;
  int touched = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    const Real* row = out.data() + i * stride;
    if (row[0] != Real{-7} || row[stride - 1] != Real{-7}) ++touched;
    for (std::int64_t j = 0; j < columns; ++j) {
      std::vector<Real> products(depth);
      for (std::int64_t k = 0; k < depth; ++k) products[k] = a(i, k) * b(k, j);
      if (bits(row[j + 1]) != bits(literal_sum(products))) ++different;
    }
  }
  CHECK(different == 0);
  CHECK(touched == 0);
}

TEST_CASE(
    "matmul: has the bits of literal loops for every instruction set, extent and transposition") {
  const std::array<std::array<std::int64_t, 3>, 10> extents = {{{1, 1, 1},
                                                                {1, 9, 1},
                                                                {3, 7, 5},
                                                                {4, 8, 16},
                                                                {5, 17, 15},
                                                                {2, 1, 33},
                                                                {13, 13, 37},
                                                                {9, 68, 17},
                                                                {7, 0, 3},
                                                                {0, 4, 4}}};
  for (const InstructionSet set : usable_instruction_sets()) {
    for (const auto& extent : extents) {
      for (int transposed = 0; transposed < 4; ++transposed) {
        check_matmul<float>(set, extent[0], extent[1], extent[2], transposed & 1, transposed & 2);
        check_matmul<double>(set, extent[0], extent[1], extent[2], transposed & 1, transposed & 2);
      }
    }
  }
}

TEST_CASE("matmul: inconsistent extents are rejected") {
  std::vector<float> data(36);
  const Matrix<float> two_three(data.data(), 2, 3);
  const Matrix<float> three_two(data.data() + 6, 3, 2);
  const InstructionSet set = InstructionSet::baseline;
  CHECK_THROWS_WITH_AS(
      matmul(set, two_three, two_three, three_two),
      "the extents of a product do not fit: 2x3 times 2x3 into 3x2 (elements outside a "
      "matrix would be read); "
      "use transposed() for a transposed factor",
      zeroproof::Error);
  const Matrix<float> two_two(data.data() + 12, 2, 2);
  CHECK_NOTHROW(matmul(set, two_three, three_two, two_two));
  CHECK_THROWS_AS(matmul(set, two_three, two_two, two_two), zeroproof::Error);      // depth
  CHECK_THROWS_AS(matmul(set, two_three, three_two, three_two), zeroproof::Error);  // rows
  CHECK_THROWS_AS(matmul(set, two_three, three_two, two_three), zeroproof::Error);  // columns
  CHECK_THROWS_AS(matmul(set, two_three, three_two, two_two.transposed()), zeroproof::Error);
}

TEST_CASE("byte_gpt layers: sums follow R18") {
  constexpr std::int64_t rows = 21;
  constexpr std::int64_t columns = 67;  // more than one group of columns
  Buffer<float> x(rows, columns);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      x.view()(i, j) = Philox(5).bell(static_cast<std::uint64_t>(i * columns + j)) *
                       (i % 3 == 0 ? 100.0F : 1.0F);
    }
  }

  std::vector<float> totals(columns);
  column_sums<float>({rows}, x.view(), totals.data());
  for (std::int64_t j = 0; j < columns; ++j) {
    std::vector<float> column;
    for (std::int64_t i = 0; i < rows; ++i) column.push_back(x.view()(i, j));
    CHECK(bits(totals[j]) == bits(literal_sum(column)));
  }

  // A norm with gain 1 and bias 0 returns its normalized rows.
  const zeroproof::FlatLayout layout(
      std::vector<zeroproof::ParamSpec>{{"gain", {columns}}, {"bias", {columns}}});
  std::vector<float> params(layout.padded_numel());
  std::fill_n(params.begin(), columns, 1.0F);
  NormSaved<float> saved(rows, columns);
  Buffer<float> y(rows, columns);
  layer_norm<float>(x.view(), Tensors<const float>(layout, params), 0, saved, y.view());
  for (std::int64_t i = 0; i < rows; ++i) {
    std::vector<float> row(x.view().row(i), x.view().row(i) + columns);
    const float mean = literal_sum(row) / 67.0F;
    std::vector<float> squares;
    for (float& value : row) {
      value -= mean;
      squares.push_back(value * value);
    }
    const float deviation = std::sqrt(literal_sum(squares) / 67.0F + 1e-5F);
    for (std::int64_t j = 0; j < columns; ++j) {
      CHECK(bits(y.view()(i, j)) == bits(row[j] / deviation));
    }
  }

  for (const InstructionSet set : usable_instruction_sets()) {
    CAPTURE(name(set));
    for (const std::int64_t count : {std::int64_t{1}, std::int64_t{40}, columns}) {
      std::vector<float> row(x.view().row(1), x.view().row(1) + columns);
      const float max = *std::max_element(row.begin(), row.begin() + count);
      std::vector<float> exps(columns);
      for (std::size_t j = 0; j < static_cast<std::size_t>(count); ++j)
        exps[j] = exp_f32(row[j] - max);
      const float sum = softmax_row(set, row.data(), count, columns);
      CHECK(bits(sum) == bits(literal_sum(exps)));
      for (std::size_t j = 0; j < row.size(); ++j) CHECK(bits(row[j]) == bits(exps[j] / sum));
    }
  }
}

}  // namespace portable_math_test
