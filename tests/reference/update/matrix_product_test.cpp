// Matrix products by hand: the order of the terms, their rounding, and special values (R27).

#include <array>
#include <cmath>

#include "common/base/float_formats.hpp"
#include "reference/operations.hpp"
#include "tests/reference/support.hpp"

namespace matrix_product_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

using enum MatrixFactors;

std::vector<float> product(MatrixFactors factors, std::int64_t rows, std::int64_t columns,
                           std::int64_t inner, const std::vector<float>& left,
                           const std::vector<float>& right) {
  std::vector<float> result(static_cast<std::size_t>(rows * columns), nan32);
  reference::matrix_product({}, factors, rows, columns, inner, left, right, result);
  return result;
}

/// The product of two rows, as bits.
std::uint32_t of_rows(MatrixFactors factors, const std::vector<float>& x,
                      const std::vector<float>& y) {
  return bits(product(factors, 1, 1, static_cast<std::int64_t>(x.size()), x, y))[0];
}

/// Nine terms: the last two, which are these, share the last block, and all others are 0.
std::vector<float> last_two(float first, float second) {
  std::vector<float> row(9, 0.0F);
  row[7] = first;
  row[8] = second;
  return row;
}

}  // namespace

TEST_CASE("matrix product: small integers are exact, and rows meet rows") {
  const std::vector<float> left = {1, 2, 3, 4, 5, 6};                // 2 x 3
  const std::vector<float> right = {7, 8, 9, -1, 0, 1, 2, -2, 0.5};  // 3 x 3, transposed
  for (const MatrixFactors factors : {bf16, fp32}) {
    CHECK(product(factors, 2, 3, 3, left, right) == std::vector<float>{50, 2, -0.5F, 122, 2, 1});
  }
}

TEST_CASE("matrix product: without terms every element is +0, without elements nothing is done") {
  for (const MatrixFactors factors : {bf16, fp32}) {
    CHECK(bits(product(factors, 2, 3, 0, {}, {})) == std::vector<std::uint32_t>(6, 0));
    CHECK(product(factors, 0, 3, 2, {}, {1, 2, 3, 4, 5, 6}).empty());
    CHECK(product(factors, 3, 0, 2, {1, 2, 3, 4, 5, 6}, {}).empty());
    CHECK(product(factors, 0, 0, 0, {}, {}).empty());
  }
}

TEST_CASE("matrix product: terms are added in eight blocks, then by the tree of R18") {
  const float tiny = 0x1p-12F;  // its square is half of the last bit of 1
  for (const MatrixFactors factors : {bf16, fp32}) {
    // Three terms are in blocks 2, 5 and 7: s2 + (s5 + s7). One after another they would give 1.
    CHECK(of_rows(factors, {1, tiny, tiny}, {1, tiny, tiny}) == bits(1 + 0x1p-23F));
    CHECK(of_rows(factors, {tiny, tiny, 1}, {tiny, tiny, 1}) == bits(1.0F));
    // Nine terms: the last two are in one block, whose sum is rounded first; the seven others are
    // one in each block.
    std::vector<float> row(9, 0.0F);
    row[6] = row[7] = tiny;
    row[8] = 1;
    CHECK(of_rows(factors, row, row) == bits(1.0F));  // tiny^2 + (tiny^2 + 1)
    row = {1, 0, 0, 0, 0, 0, 0, tiny, tiny};
    CHECK(of_rows(factors, row, row) == bits(1 + 0x1p-23F));
    row = {1, tiny, tiny, tiny, 0, 0, 0, 0, 0};
    CHECK(of_rows(factors, row, row) == bits(1 + 0x1p-23F));  // (1 + tiny^2) + (tiny^2 + tiny^2)
    // 17 terms: block b has the terms 17 b / 8 up to 17 (b + 1) / 8, the last one three of them.
    row.assign(17, 0.0F);
    row[13] = 1;
    row[14] = row[15] = row[16] = tiny;
    CHECK(of_rows(factors, row, row) == bits(1 + 0x1p-22F));  // 1 + 3/2 units, ties to even
    row.assign(17, 0.0F);
    row[12] = 1;
    row[11] = row[13] = row[14] = tiny;  // 12 and 13 are one block, 11 and 14 are in others
    CHECK(of_rows(factors, row, row) == bits(1.0F));
  }
}

TEST_CASE("matrix product: a term is rounded once, with its sum") {
  // (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24, which has one bit more than fp32.
  const float x = 1 + 0x1p-12F;
  CHECK(of_rows(fp32, last_two(-1, x), last_two(1, x)) == bits(0x1p-11F + 0x1p-24F));
  CHECK(of_rows(bf16, last_two(-1, x), last_two(1, x)) == bits(0.0F));  // x is 1
  // The product is 2^-24 + 2^-57, just above half of the last bit of 1: fp64 does not hold the sum.
  CHECK(of_rows(fp32, last_two(1, 1 + 0x1p-11F),
                last_two(1, 0x1p-24F * (1 - 0x1p-11F + 0x1p-22F))) == bits(1 + 0x1p-23F));
  for (const MatrixFactors factors : {bf16, fp32}) {
    // 2^-150 is rounded to 0 alone, and with 2^-149 to 2^-148.
    CHECK(of_rows(factors, last_two(0x1p-74F, 0x1p-75F), last_two(0x1p-75F, 0x1p-75F)) ==
          bits(0x1p-148F));
    CHECK(of_rows(factors, {0x1p-75F}, {0x1p-75F}) == bits(0.0F));
    CHECK(of_rows(factors, {0x1.8p-75F}, {0x1p-75F}) == bits(0x1p-149F));
    CHECK(of_rows(factors, {0x1p-75F}, {-0x1p-75F}) == bits(-0.0F + 0.0F));
    // 2^128 is infinite alone.
    CHECK(of_rows(factors, last_two(-0x1p127F, 0x1p127F), last_two(1, 2)) == bits(0x1p127F));
    CHECK(of_rows(factors, {0x1p127F}, {2}) == bits(inf32));
  }
}

TEST_CASE("matrix product: terms of any size are those of std::fma") {
  constexpr std::int64_t rows = 150, inner = 17;
  for (const int spread : {4, 20, 126}) {  // exponents of the factors
    std::vector<float> x = random_values(rows * inner, 21, spread);
    std::vector<float> y = random_values(rows * inner, 22, spread);
    for (const MatrixFactors factors : {fp32, bf16}) {
      if (factors == bf16) {
        for (std::vector<float>* values : {&x, &y})
          for (float& value : *values) value = to_float(to_bf16(value));
      }
      const std::vector<float> p = product(factors, rows, rows, inner, x, y);
      std::int64_t differing = 0;
      for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t j = 0; j < rows; ++j) {
          std::array<float, 8> s{};
          for (std::int64_t b = 0; b < 8; ++b) {
            for (std::int64_t q = inner * b / 8; q < inner * (b + 1) / 8; ++q)
              s[b] = std::fma(x[i * inner + q], y[j * inner + q], s[b]);
          }
          const float sum = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
          differing += bits(p[i * rows + j]) == bits(sum) ? 0 : 1;
        }
      }
      CHECK(differing == 0);
    }
  }
}

TEST_CASE("matrix product: factors bf16 are rounded to nearest even, subnormals are kept") {
  CHECK(of_rows(bf16, {1 + 0x1p-8F}, {1}) == bits(1.0F));
  CHECK(of_rows(bf16, {1 + 0x1.8p-7F}, {1}) == bits(1 + 0x1p-6F));
  CHECK(of_rows(bf16, {1}, {1 + 0x1.1p-8F}) == bits(1 + 0x1p-7F));
  CHECK(of_rows(fp32, {1 + 0x1p-8F}, {1}) == bits(1 + 0x1p-8F));
  CHECK(of_rows(bf16, {0x1p-133F}, {1}) == bits(0x1p-133F));  // the smallest bf16
  CHECK(of_rows(bf16, {0x1p-134F}, {1}) == bits(0.0F));
  CHECK(of_rows(bf16, {3.4e38F}, {1}) == bits(inf32));
  CHECK(of_rows(fp32, {3.4e38F}, {1}) == bits(3.4e38F));
}

TEST_CASE("matrix product: zeros, infinities and NaN") {
  for (const MatrixFactors factors : {bf16, fp32}) {
    CHECK(of_rows(factors, {-0.0F}, {1}) == bits(0.0F));  // the sum begins with +0
    CHECK(of_rows(factors, {-0.0F, -0.0F, -1}, {1, 1, 0}) == bits(0.0F));
    CHECK(of_rows(factors, {inf32}, {2}) == bits(inf32));
    CHECK(of_rows(factors, {inf32}, {0}) == bits(nan32));
    CHECK(of_rows(factors, {inf32, -inf32}, {1, 1}) == bits(nan32));
    // Only the elements of a row with a NaN are NaN.
    CHECK(bits(product(factors, 2, 2, 2, {nan32, 1, 2, 3}, {1, 0, 0, 1})) ==
          bits({nan32, nan32, 2, 3}));
    CHECK(bits(product(factors, 2, 2, 2, {1, 0, 0, 1}, {2, nan32, 3, 4})) ==
          bits({nan32, 3, nan32, 4}));
  }
}

TEST_CASE("matrix product: of a matrix with itself, in one memory, is symmetric bit for bit") {
  for (const MatrixFactors factors : {bf16, fp32}) {
    for (const std::int64_t inner : {1, 7, 8, 9, 100}) {
      const std::vector<float> x = random_values(13 * inner, 5);
      const std::vector<std::uint32_t> p = bits(product(factors, 13, 13, inner, x, x));
      for (std::size_t i = 0; i < 13; ++i) {
        for (std::size_t j = 0; j < i; ++j) CHECK(p[13 * i + j] == p[13 * j + i]);
      }
    }
  }
}

TEST_CASE("matrix product: an element depends on its two rows alone") {
  const std::int64_t inner = 37;
  const std::vector<float> x = random_values(5 * inner, 6), y = random_values(3 * inner, 7);
  for (const MatrixFactors factors : {bf16, fp32}) {
    const std::vector<std::uint32_t> p = bits(product(factors, 5, 3, inner, x, y));
    for (std::int64_t i = 0; i < 5; ++i) {
      for (std::int64_t j = 0; j < 3; ++j) {
        const std::vector<float> left(x.begin() + i * inner, x.begin() + (i + 1) * inner);
        const std::vector<float> right(y.begin() + j * inner, y.begin() + (j + 1) * inner);
        CHECK(p[static_cast<std::size_t>(3 * i + j)] == of_rows(factors, left, right));
        CHECK(of_rows(factors, left, right) == of_rows(factors, right, left));
      }
    }
  }
}

TEST_CASE("matrix product: views that do not fit are rejected") {
  std::vector<float> six(6), result(4);
  const auto multiply = [&](std::int64_t rows, std::int64_t columns, std::int64_t inner) {
    reference::matrix_product({}, bf16, rows, columns, inner, six, six, result);
  };
  multiply(2, 2, 3);
  ZP_CHECK_INVALID(multiply(2, 2, 2));
  ZP_CHECK_INVALID(multiply(3, 2, 2));
  ZP_CHECK_INVALID(multiply(2, 3, 2));
  ZP_CHECK_INVALID(multiply(1, 1, 6));  // product has four
  ZP_CHECK_INVALID(multiply(-2, -2, -3));
  ZP_CHECK_INVALID(multiply(2, -2, 3));
  constexpr std::int64_t large = std::int64_t{1} << 62;  // a product of extents would overflow
  ZP_CHECK_INVALID(multiply(large, 2, 3));
  ZP_CHECK_INVALID(multiply(2, 2, large));
}

}  // namespace matrix_product_test
