// The infinity norm and the p-norm of the host implementation: by hand, special values, and within its bound.

#include <doctest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "cuda/host/operations.hpp"
#include "tests/cuda/every_exec.hpp"
#include "tests/cuda/expect_error.hpp"

namespace host_norm_p_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
namespace host = zeroproof::cuda::host;

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

}  // namespace

TEST_CASE("inf: the largest magnitude as an integer") {
  for (const Exec& exec : every_exec()) {
    const auto amax = [&](const std::vector<float>& values, std::uint32_t start = 0) {
      host::grad_max_accumulate(exec, values, start);
      return start;
    };
    CHECK(amax({}) == 0);
    CHECK(amax({0.0F, -0.0F}) == 0);
    CHECK(amax({1.0F, -1.5F, 0.25F}) == 0x3FC00000U);
    CHECK(amax({1.0F}, 0x40000000U) == 0x40000000U);
    CHECK(amax({-0x1p-149F}) == 1);
    CHECK(amax({3.0F, -inf}) == 0x7F800000U);
    CHECK(amax({inf, std::bit_cast<float>(0xFF800001U), 1.0F}) == 0x7FFFFFFFU);
    std::vector<float> many(40000, -1.0F);
    for (const std::size_t at :
         {std::size_t{0}, std::size_t{16383}, std::size_t{16384}, std::size_t{39999}}) {
      many[at] = -2.0F;
      CHECK(amax(many) == 0x40000000U);
      many[at] = not_a_number;
      CHECK(amax(many) == 0x7FFFFFFFU);
      many[at] = -1.0F;
    }
  }
  CHECK(host::grad_max_finish(0) == 0.0);
  CHECK(host::grad_max_finish(1) == 0x1p-149);
  CHECK(host::grad_max_finish(0x3FC00000U) == 1.5);
  CHECK(host::grad_max_finish(0x7F800000U) == std::numeric_limits<double>::infinity());
  CHECK(std::isnan(host::grad_max_finish(0x7F800001U)));
  CHECK(std::isnan(host::grad_max_finish(0x7FFFFFFFU)));
}

TEST_CASE("the p-norm: by hand, special values, and within its bound") {
  for (const Exec& exec : every_exec()) {
    const auto near = [](double got, double want, double p, double numel) {
      const double bound = 1.01 * ((numel + 50) / p + 8) * 0x1p-53;
      CHECK(std::fabs(got - want) <= bound * want);
    };
    near(host::grad_norm_p(exec, std::vector<float>{3.0F, -4.0F}, 2), 5, 2, 2);
    near(host::grad_norm_p(exec, std::vector<float>{3.0F, 4.0F, -5.0F}, 3), 6, 3,
         3);  // 27 + 64 + 125 = 216
    near(host::grad_norm_p(exec, std::vector<float>{4.0F, -9.0F, 16.0F}, 0.5), 81, 0.5, 3);
    near(host::grad_norm_p(exec, std::vector<float>{1.0F, -2.0F, 0.0F}, 1), 3, 1, 3);
    near(host::grad_norm_p(exec, std::vector<float>(40000, 2.0F), 4),
         2 * std::sqrt(std::sqrt(40000.0)), 4, 40000);
    near(host::grad_norm_p(exec, std::vector<float>(40000, 2.0F), 2.5), 2 * std::pow(40000.0, 0.4),
         2.5, 40000);
    near(host::grad_norm_p(exec, std::vector<float>{0x1p127F, 0x1p127F}, 1000.5),
         0x1p127 * std::exp2(1 / 1000.5), 1000.5, 2);
    near(host::grad_norm_p(exec, std::vector<float>{0x1p-149F, 0x1p-149F}, 64),
         0x1p-149 * std::exp2(1 / 64.0), 64, 2);
    CHECK(host::grad_norm_p(exec, {}, 3) == 0.0);
    CHECK(host::grad_norm_p(exec, std::vector<float>{-0.0F, 0.0F}, 3) == 0.0);
    CHECK_FALSE(std::signbit(host::grad_norm_p(exec, std::vector<float>{-0.0F}, 2.5)));
    CHECK(host::grad_norm_p(exec, std::vector<float>{-inf, 1.0F}, 2.5) ==
          std::numeric_limits<double>::infinity());
    CHECK(std::isnan(host::grad_norm_p(exec, std::vector<float>{inf, not_a_number}, 3)));
    for (const double p :
         {0.0, -0.0, -1.0, std::numeric_limits<double>::infinity(),
          -std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
      tests::expect_error(ErrorCode::invalid_argument, [&] { host::grad_norm_p(exec, {}, p); });
    }
  }
}

}  // namespace host_norm_p_test
