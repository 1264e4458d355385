// The rules of papers/fusions.md by hand: what is right stays inside and nearly reaches the bound, what is wrong leaves
// it.

#include <doctest.h>

#include <cmath>
#include <limits>

#include "tests/errors/batch.hpp"

using namespace zeroproof::errors;

TEST_CASE("a sum in which every addition of a block rounds its term away reaches its bound, and is inside") {
  constexpr std::int64_t n = 800;  // 100 terms in a block
  const auto term = [](std::int64_t i) { return given(i == 0 ? 1.0F : 0x1p-24F); };
  float computed = 0;
  for (int block = 0; block < 8; ++block) {
    float s = 0;
    for (std::int64_t i = n * block / 8; i < n * (block + 1) / 8; ++i) {
      s = s + static_cast<float>(term(i).value);
    }
    computed = computed + s;  // what is added to 1 here is a multiple of 2^-23: as exact as the tree
  }
  // The first block loses 99 halves of a unit, of 102 additions that a term takes part in.
  const double ratio = sum(n, term).ratio(computed);
  CHECK(ratio <= 1);
  CHECK(ratio > 0.96);
}

TEST_CASE("what the operands bring is in the bound of every operation, and one unit more is not") {
  const Bounded a{3, 1e-6}, b{-0.7, 2e-6};
  const auto inside = [](const Bounded& bound, double extreme) {
    CHECK(std::fabs(extreme - bound.value) <= bound.error);
    CHECK(std::fabs(extreme - bound.value) > 0.5 * bound.error);
  };
  inside(a + b, (a.value + a.error) + (b.value + b.error));
  inside(a - b, (a.value + a.error) - (b.value - b.error));
  inside(a * b, (a.value + a.error) * (b.value - b.error));
  inside(a / b, (a.value + a.error) / (b.value + b.error));
  inside(root(a), std::sqrt(a.value - a.error));
  inside(exp(a), std::exp(a.value + a.error));
  inside(sigmoid(b), 1 / (1 + std::exp(-(b.value + b.error))));
  inside(tanh(b), std::tanh(b.value + b.error));
  inside(log(a), std::log(a.value - a.error));
  const Bounded half = given(0.5F) * given(1.0F);
  CHECK(half.ratio(0.5F) == 0);
  CHECK(half.ratio(0.5F + 0x1p-24F) > 1);
}

TEST_CASE("a figure keeps the worst, and a NaN for good") {
  Figure figure;
  figure.look(rounded(1), 1.0F);
  figure.add({1, 0.25});
  figure.add({1, 0.125});
  CHECK(figure.worst == 0.25);
  CHECK(figure.judged == 3);
  figure.look(given(1), std::numeric_limits<float>::quiet_NaN());
  figure.add({1, 0.5});
  CHECK(std::isnan(figure.worst));
}
