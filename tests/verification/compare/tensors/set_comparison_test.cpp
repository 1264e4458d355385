// Two sets of tensors: counts, equality, and the places of the largest differences.

#include <doctest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "common/base/float_formats.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/verification/compare/tensors/tensor_files.hpp"
#include "verification/compare/tensors/set_report.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;

constexpr float no_number = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

SetComparison compared(const std::vector<NamedTensor>& first,
                       const std::vector<NamedTensor>& second) {
  const TemporaryFolder folder;
  write_tensors(folder.file("a"), first);
  write_tensors(folder.file("b"), second);
  const auto a = SafetensorsReader::open(folder.file("a"));
  const auto b = SafetensorsReader::open(folder.file("b"));
  return compare_sets(a, b, pairs_by_name(a.header(), b.header()));
}

TensorDifference one(const NamedTensor& first, const NamedTensor& second) {
  return compared({first}, {second}).tensors.front();
}

float next(float value, int ulps) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) +
                              static_cast<std::uint32_t>(ulps));
}

}  // namespace

TEST_CASE("tensor differences: distances are counted, and the first largest one is named") {
  const TensorDifference found =
      one(floats("x", {1, 2, 3, 4, 5, 6}),
          floats("x", {1, next(2, 1), next(3, 2), next(4, 15), 5, next(6, 15)}));
  CHECK(found.bits.compared == 6);
  CHECK(found.bits.differing == 4);
  CHECK(found.bits.first->index == 1);
  CHECK(found.bits.last_index == 5);
  CHECK(found.ulps.counts == std::array<std::int64_t, 5>{2, 1, 1, 2, 0});
  CHECK(found.ulps.largest == 15);
  CHECK(found.ulps.largest_index == 3);
  CHECK(found.absolute.index == 3);  // 15 units of 2^-21; those at 6 are equally far apart
  CHECK(found.absolute.value == 15 * 0x1p-21);
  CHECK(found.relative.index == 3);
  CHECK(found.relative.value == 15 * 0x1p-21 / (4 + 15 * 0x1p-21));
  CHECK_FALSE(found.equal());
}

TEST_CASE("tensor differences: a NaN against a number is the largest difference, at any position") {
  for (const std::vector<float>& other :
       {std::vector<float>{no_number, 9, 0}, {9, 0, no_number}, {0, no_number, 9}}) {
    const TensorDifference found = one(floats("x", {0, 0, 0}), floats("x", other));
    CHECK(std::isnan(found.absolute.value));
    CHECK(std::isnan(found.relative.value));
    CHECK(std::isnan(other[found.absolute.index]));
    CHECK(found.ulps.sign_or_nan == 1);
    CHECK(found.bits.differing == 2);
  }
}

TEST_CASE(
    "tensor differences: all NaNs are one value, two zeros are not, infinities are far apart") {
  const TensorDifference same = one(floats("x", {no_number, 1}), floats("x", {-no_number, 1}));
  CHECK(same.equal());
  CHECK_FALSE(same.bits.same_bits);
  const TensorDifference zeros = one(floats("x", {0.0F}), floats("x", {-0.0F}));
  CHECK_FALSE(zeros.equal());
  CHECK(zeros.absolute.value == 0);
  CHECK(zeros.relative.value == 0);
  CHECK(zeros.absolute.index == 0);
  const TensorDifference infinite = one(floats("x", {infinity, 2}), floats("x", {3, 2}));
  CHECK(std::isinf(infinite.absolute.value));
  CHECK(std::isinf(infinite.relative.value));
  CHECK(one(floats("x", {infinity}), floats("x", {infinity})).equal());
}

TEST_CASE("tensor differences: integers differ exactly, and have no ulps") {
  const std::int64_t large = std::numeric_limits<std::int64_t>::max();
  const TensorDifference signs =
      one(tensor<std::int64_t>("x", SafeDType::i64, {2}, {large, 5}),
          tensor<std::int64_t>("x", SafeDType::i64, {2}, {large - 1, -5}));
  CHECK(signs.absolute.value == 10);
  CHECK(signs.absolute.index == 1);
  CHECK(signs.bits.differing == 2);
  CHECK(signs.ulps.counts[0] + signs.ulps.sign_or_nan == 0);
  const TensorDifference bytes = one(tensor<std::int8_t>("x", SafeDType::i8, {1}, {-128}),
                                     tensor<std::int8_t>("x", SafeDType::i8, {1}, {127}));
  CHECK(bytes.absolute.value == 255);
  CHECK_FALSE(one(tensor<std::uint8_t>("x", SafeDType::boolean, {1}, {0}),
                  tensor<std::uint8_t>("x", SafeDType::boolean, {1}, {1}))
                  .equal());
  // A byte that would be a NaN of an 8-bit float is a number here.
  CHECK_FALSE(one(tensor<std::uint8_t>("x", SafeDType::u8, {1}, {0x7F}),
                  tensor<std::uint8_t>("x", SafeDType::u8, {1}, {0xFF}))
                  .equal());
  CHECK(one(tensor<std::uint8_t>("x", SafeDType::f8_e4m3, {1}, {0x7F}),
            tensor<std::uint8_t>("x", SafeDType::f8_e4m3, {1}, {0xFF}))
            .equal());
}

TEST_CASE("tensor differences: every float type has its own last place") {
  const auto sixteen = [](SafeDType dtype, std::uint16_t bits) {
    return tensor<std::uint16_t>("x", dtype, {1}, {bits});
  };
  const TensorDifference brain =
      one(sixteen(SafeDType::bf16, 0x3F80), sixteen(SafeDType::bf16, 0x3F83));
  CHECK(brain.ulps.largest == 3);
  CHECK(brain.absolute.value == 3 * 0x1p-7);
  const TensorDifference half =
      one(sixteen(SafeDType::f16, 0x3C00), sixteen(SafeDType::f16, 0x3C03));
  CHECK(half.absolute.value == 3 * 0x1p-10);
  const TensorDifference wide = one(tensor<double>("x", SafeDType::f64, {}, {1.0}),
                                    tensor<double>("x", SafeDType::f64, {}, {1.0 + 0x1p-52}));
  CHECK(wide.ulps.largest == 1);
  CHECK(wide.absolute.value == 0x1p-52);
}

TEST_CASE("tensor differences: indices continue over the pieces of a long tensor") {
  std::vector<float> first((1 << 18) * 2 + 7, 1.0F);
  std::vector<float> second = first;
  second[(1 << 18) + 3] = next(1, 1);
  second.back() = next(1, 40);
  const TensorDifference found = one(floats("x", first), floats("x", second));
  CHECK(found.bits.compared == static_cast<std::int64_t>(first.size()));
  CHECK(found.bits.differing == 2);
  CHECK(found.bits.first->index == (1 << 18) + 3);
  CHECK(found.ulps.largest_index == static_cast<std::int64_t>(first.size()) - 1);
  CHECK(found.absolute.index == static_cast<std::int64_t>(first.size()) - 1);
  CHECK(found.ulps.counts[0] == static_cast<std::int64_t>(first.size()) - 2);
}

TEST_CASE("tensor differences: missing or mismatched tensors are named, and never equal") {
  const SetComparison found =
      compared({floats("a", {1}), floats("c", {1, 2}), floats("d", {1, 2}), floats("e", {})},
               {floats("b", {1}), tensor<double>("c", SafeDType::f64, {2}, {1, 2}),
                tensor<float>("d", SafeDType::f32, {2, 1}, {1, 2}), floats("e", {})});
  REQUIRE(found.tensors.size() == 5);
  CHECK(found.tensors[0].match == TensorMatch::only_first);
  CHECK(found.tensors[1].match == TensorMatch::only_second);
  CHECK(found.tensors[2].match == TensorMatch::other_dtype);
  CHECK(found.tensors[3].match == TensorMatch::other_shape);
  CHECK(found.tensors[4].equal());  // no elements
  CHECK(found.totals.unmatched_tensors == 4);
  CHECK(found.totals.compared == 0);
  CHECK_FALSE(found.equal());
}

TEST_CASE("tensor differences: a share is rounded down, only all is 100 percent") {
  CHECK(share(3, 3) == "100 %");
  CHECK(share(0, 0) == "100 %");
  CHECK(share(999'999'999, 1'000'000'000) == "99.99 %");
  CHECK(share(0, 7) == "0.00 %");
}
