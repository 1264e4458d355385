// Gradients of the model against differences of its loss.

#include <doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/verification/model/byte_gpt_support.hpp"

namespace byte_gpt_differences_test {

using namespace zeroproof;
using namespace zeroproof::workload;

namespace {

// Compares every stride-th element of every tensor with a difference of four losses, D = f(x + h) -
// f(x - h) and the same at twice the distance: (8 D(h) - D(2h)) / 12h.
//
// Its error is h^4 / 30 * |f^(5)| from truncation and 3 d / 2h from a loss with an error of d. With
// h = 2^-16 the first is below 1e-15 for |f^(5)| <= 5e5 (a query weight of a model with swiglu has
// |f'''| = 440: two losses are not enough, because h^2 / 6 of that, at 2^-17, is above the
// tolerance); the second is 3.6e-10 for d = 3.6e-15, two units in the last place of a loss between
// 8 and 16. The tolerance is from the difference of two losses: 1e-9. Typical gradient elements are
// 1e-3 to 1.
void check_against_differences(const ByteGptShape& shape, std::int64_t stride) {
  constexpr double h = 0x1p-16;
  constexpr double tolerance = 1e-9;
  Model<double> model = rough_model<double>(shape);
  model.loss_and_grad();
  for (const TensorSlot& slot : model.layout.tensors()) {
    double worst = 0;
    double largest = 0;
    std::int64_t where = slot.begin;
    for (std::int64_t i = slot.begin; i < slot.begin + slot.numel; i += stride) {
      double& x = model.params[i];
      const double kept = x;
      const auto loss_at = [&](double step) {
        x = kept + step;
        const double loss = model.loss();
        x = kept;
        return loss;
      };
      const double got = model.grad[i];
      const double near = loss_at(h) - loss_at(-h);
      const double far = loss_at(2 * h) - loss_at(-2 * h);
      const double error = std::fabs((8 * near - far) / (12 * h) - got);
      largest = std::max(largest, std::fabs(got));
      if (!(error <= worst) && !std::isnan(worst)) {  // a NaN remains the worst
        worst = error;
        where = i;
      }
    }
    INFO(slot.name, model.layout.coordinates(where), ": error ", worst, ", largest gradient ",
         largest);
    CHECK(worst <= tolerance);
    // The softmax over keys is invariant to a constant added to all keys, so only this gradient is
    // 0.
    if (!slot.name.ends_with("key.bias") && shape.context > 1) CHECK(largest > 1e4 * tolerance);
  }
}

}  // namespace

TEST_CASE("byte_gpt gradient: every parameter of very small models agrees with differences") {
  check_against_differences({1, 4, 2, 3, 5}, 1);  // fewer positions than sum blocks
  check_against_differences({2, 6, 1, 5, 10}, 1);
  check_against_differences({1, 1, 1, 1, 1}, 1);  // one of everything: the norms give 0
}

TEST_CASE("byte_gpt gradient: tied embeddings agree with differences") {
  check_against_differences({1, 4, 2, 3, 5, true}, 1);
  check_against_differences({2, 6, 1, 5, 10, true}, 1);
}

TEST_CASE("byte_gpt gradient: RMS norms and gates agree with differences") {
  check_against_differences({1, 4, 2, 3, 5, false, true}, 1);
  check_against_differences({2, 6, 1, 5, 10, false, true}, 1);
  check_against_differences({1, 4, 2, 3, 5, true, true}, 1);
}

TEST_CASE("byte_gpt gradient: sampled parameters of the tiny workloads agree with differences") {
  check_against_differences(byte_gpt_tiny, 11);
  check_against_differences(byte_gpt_swiglu_tiny, 11);
}

}  // namespace byte_gpt_differences_test
