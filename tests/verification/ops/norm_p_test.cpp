// The p-norm of infinities, NaN and zeros, and its refusals; mpfr/norm_p_test.cpp checks its bound.

#include <doctest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "common/base/error.hpp"
#include "oracle_implementations.hpp"
#include "oracle_limbs.hpp"

namespace norm_p_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::oracle;

constexpr double exponents[] = {0.5, 1, 1.5, 2, 3, 7.25, 60};

}  // namespace

TEST_CASE("p-norm: special values and refusals") {
  constexpr float inf = std::numeric_limits<float>::infinity();
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  constexpr double double_inf = std::numeric_limits<double>::infinity();
  constexpr std::uint64_t inf_bits = 0x7FF0000000000000, nan_bits = 0x7FFFFFFFFFFFFFFF;
  for (const Implementation& implementation : implementations_with(&Implementation::grad_norm_p)) {
    CAPTURE(implementation.name);
    const auto norm = [&](const std::vector<float>& grad, double p) {
      return norm_bits(implementation.grad_norm_p(implementation.exec, grad, p));
    };
    for (double p : exponents) {
      CHECK(norm({}, p) == 0);
      CHECK(norm({0, -0.0F, 0}, p) == 0);
      CHECK(norm({-0.0F}, p) == 0);
      CHECK(norm({1, -inf, 2}, p) == inf_bits);
      CHECK(norm({inf}, p) == inf_bits);
      CHECK(norm({inf, inf, -inf}, p) == inf_bits);
      CHECK(norm({1, nan, 2}, p) == nan_bits);
      CHECK(norm({inf, nan}, p) == nan_bits);
      CHECK(norm({nan, inf}, p) == nan_bits);
      CHECK(norm({0, nan}, p) == nan_bits);
      std::vector<float> late(1000, 1.0F);
      late[997] = nan;
      late[3] = inf;
      CHECK(norm(late, p) == nan_bits);
    }
    for (double p :
         {0.0, -0.0, -1.0, double_inf, -double_inf, std::numeric_limits<double>::quiet_NaN()}) {
      try {
        implementation.grad_norm_p(implementation.exec, {}, p);
        CHECK_MESSAGE(false, "p was accepted");
      } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::invalid_argument);
      }
    }
  }
}

}  // namespace norm_p_test
