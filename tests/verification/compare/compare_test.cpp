// The comparison of elements: NaN fails, signs of zero count, no read outside the range.

#include <doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <tuple>
#include <vector>

#include "common/base/error.hpp"
#include "verification/compare/compare.hpp"

namespace compare_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;

constexpr float nan32 = std::numeric_limits<float>::quiet_NaN();
constexpr float inf = std::numeric_limits<float>::infinity();

TensorView view(std::vector<float>& values) {
  return {values.data(), DType::fp32, static_cast<std::int64_t>(values.size())};
}

std::int64_t differing(float a, float b) {
  std::vector<float> left = {a};
  std::vector<float> right = {b};
  return compare(view(left), view(right), 0, 1).differing;
}

}  // namespace

TEST_CASE("compare: a NaN on one side is a difference from any number") {
  for (const float other : {0.0F, -0.0F, 1.0F, inf, -inf, std::numeric_limits<float>::denorm_min(),
                            std::numeric_limits<float>::max()}) {
    CHECK(differing(nan32, other) == 1);
    CHECK(differing(other, nan32) == 1);
  }
}

TEST_CASE("compare: all NaNs are one value, in every float format") {
  CHECK(differing(nan32, std::bit_cast<float>(0xFFC12345U)) == 0);
  CHECK(differing(std::bit_cast<float>(0x7F800001U), nan32) == 0);  // signalling
  for (const auto& [dtype, nan_a, nan_b, infinity] :
       {std::tuple{DType::bf16, 0x7F81, 0xFFFF, 0x7F80},
        std::tuple{DType::fp16, 0x7C01, 0xFE00, 0x7C00}}) {
    std::vector<std::uint16_t> a = {static_cast<std::uint16_t>(nan_a),
                                    static_cast<std::uint16_t>(nan_a)};
    std::vector<std::uint16_t> b = {static_cast<std::uint16_t>(nan_b),
                                    static_cast<std::uint16_t>(infinity)};
    const Comparison result = compare({a.data(), dtype, 2}, {b.data(), dtype, 2}, 0, 2);
    CHECK(result.differing == 1);
    CHECK(result.first->index == 1);
  }
  std::vector<std::uint64_t> a = {0x7FF0000000000001U, 0x7FF0000000000000U};
  std::vector<std::uint64_t> b = {0xFFFFFFFFFFFFFFFFU, 0x7FF0000000000001U};
  CHECK(compare({a.data(), DType::fp64, 2}, {b.data(), DType::fp64, 2}, 0, 2).differing == 1);
}

TEST_CASE("same_value: two NaNs are equal and need not have the same bits") {
  std::vector<float> a = {1, nan32, 3};
  std::vector<float> b = {1, std::bit_cast<float>(0xFFC12345U), 3};
  CHECK(compare(view(a), view(a), 0, 3).same_bits);
  Comparison all = compare(view(a), view(b), 0, 1);
  CHECK(all.same_bits);
  all.add(compare(view(a), view(b), 1, 1));
  CHECK(all.differing == 0);
  CHECK_FALSE(all.same_bits);
  all.add(compare(view(a), view(b), 2, 1));
  CHECK_FALSE(all.same_bits);
  b[1] = 2;
  CHECK_FALSE(compare(view(a), view(b), 0, 3).same_bits);
}

TEST_CASE("first_number: finds a number at any position among NaNs") {
  std::vector<float> values(5000, nan32);
  CHECK(first_number(view(values), 0, 5000) == 5000);
  CHECK(first_number(view(values), 7, 7) == 7);
  for (const std::int64_t at : {0, 1, 1023, 1024, 4999}) {
    std::vector<float> one = values;
    one[at] = inf;
    CHECK(first_number(view(one), 0, 5000) == at);
    CHECK(first_number(view(one), at, 5000) == at);
    CHECK(first_number(view(one), at + 1, 5000) == 5000);
    CHECK(first_number(view(one), 0, at) == at);
  }
}

TEST_CASE("compare: integers have no NaN, every bit counts") {
  std::vector<std::uint32_t> a = {0x7FC00000U, 0xFFFFFFFFU};
  std::vector<std::uint32_t> b = {0x7FC00001U, 0xFFFFFFFEU};
  CHECK(compare({a.data(), DType::u32, 2}, {b.data(), DType::u32, 2}, 0, 2).differing == 2);
  CHECK_FALSE(is_nan_bits(DType::u32, 0x7FC00000U));
  CHECK(is_nan_bits(DType::fp32, 0x7FC00000U));
}

TEST_CASE("compare: bits decide for signed zeros, infinities, one ulp, subnormals") {
  CHECK(differing(0.0F, -0.0F) == 1);
  CHECK(differing(inf, -inf) == 1);
  CHECK(differing(1.0F, std::nextafter(1.0F, 2.0F)) == 1);
  CHECK(differing(0.0F, std::numeric_limits<float>::denorm_min()) == 1);
  CHECK(differing(-inf, -inf) == 0);
  CHECK(differing(-0.0F, -0.0F) == 0);
}

TEST_CASE("compare: first and last difference, counts, and ranges") {
  std::vector<float> a = {1, 2, 3, 4, 5, 6};
  std::vector<float> b = {9, 2, 7, 4, 7, 9};
  const Comparison inner = compare(view(a), view(b), 1, 4);
  CHECK(inner.compared == 4);
  CHECK(inner.differing == 2);
  CHECK(inner.first->index == 2);
  CHECK(inner.last_index == 4);
  CHECK(inner.first->reference_bits == std::bit_cast<std::uint32_t>(3.0F));
  CHECK(inner.first->candidate_bits == std::bit_cast<std::uint32_t>(7.0F));
  Comparison sum = inner;
  sum.add(compare(view(a), view(b), 5, 1));
  CHECK(sum.compared == 5);
  CHECK(sum.differing == 3);
  CHECK(sum.first->index == 2);
  CHECK(sum.last_index == 5);
  const Comparison empty = compare(view(a), view(b), 3, 0);
  CHECK(empty.compared == 0);
  CHECK(empty.differing == 0);
  CHECK_FALSE(empty.first.has_value());
  std::vector<float> none;
  CHECK(compare(view(none), view(none), 0, 0).compared == 0);
}

TEST_CASE("compare: different dtypes or ranges are an error") {
  std::vector<float> a(4);
  std::vector<float> b(3);
  CHECK_THROWS_AS(compare(view(a), view(b), 0, 4), Error);
  CHECK_THROWS_AS(compare(view(a), view(a), -1, 2), Error);
  CHECK_THROWS_AS(compare(view(a), view(a), 2, 3), Error);
  CHECK_THROWS_AS(compare(view(a), {b.data(), DType::u32, 3}, 0, 3), Error);
}

TEST_CASE("show_bits: prints enough digits to distinguish neighbours") {
  CHECK(show_bits(DType::fp32, 0x3F8CCCCD) == "0x3f8ccccd (1.10000002)");
  CHECK(show_bits(DType::bf16, 0x3F80) == "0x3f80 (1)");
  CHECK(show_bits(DType::fp16, 0x3C00) == "0x3c00 (1)");
  CHECK(show_bits(DType::fp64, 0x3FF0000000000000) == "0x3ff0000000000000 (1)");
  CHECK(show_bits(DType::u64, 17) == "0x11 (17)");
}

}  // namespace compare_test
