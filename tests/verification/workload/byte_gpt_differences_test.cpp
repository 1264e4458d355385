// Gradients of the model against differences of its loss.

#include <doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/verification/workload/byte_gpt_support.hpp"

using namespace zeroproof;
using namespace zeroproof::workload;

namespace {

// Compares every stride-th element of every tensor with the central difference (f(x + h) - f(x - h)) / 2h.
//
// Its error is h^2 / 6 * |f'''| from truncation and d / h from a loss that is wrong by d. With h = 2^-17 the
// first is below 1e-10 for |f'''| <= 10 (differences with larger h show 3 to 5 for these models); the second
// is 4.7e-10 for d = 3.6e-15, two units in the last place of a loss between 8 and 16 (those below 8 have
// smaller units). Their sum, rounded up, is 1e-9. Typical gradient elements are 1e-3 to 1.
void check_against_differences(const ByteGptShape& shape, std::int64_t stride) {
  constexpr double h = 0x1p-17;
  constexpr double tolerance = 1e-9;
  Model<double> model = rough_model<double>(shape);
  model.loss_and_grad();
  for (const TensorSlot& slot : model.layout.tensors()) {
    double worst = 0;
    double largest = 0;
    std::int64_t where = slot.begin;
    for (std::int64_t i = slot.begin; i < slot.begin + slot.numel; i += stride) {
      double& x = model.params[static_cast<std::size_t>(i)];
      const double kept = x;
      x = kept + h;
      const double above = x;
      const double loss_above = model.loss();
      x = kept - h;
      const double below = x;
      const double loss_below = model.loss();
      x = kept;
      const double got = model.grad[static_cast<std::size_t>(i)];
      const double error = std::fabs((loss_above - loss_below) / (above - below) - got);
      largest = std::max(largest, std::fabs(got));
      if (!(error <= worst) && !std::isnan(worst)) {  // a NaN is worst for good
        worst = error;
        where = i;
      }
    }
    INFO(slot.name, model.layout.coordinates(where), ": error ", worst, ", largest gradient ", largest);
    CHECK(worst <= tolerance);
    // The softmax over keys does not see a constant added to all keys, so only this gradient is 0.
    if (!slot.name.ends_with("key.bias") && shape.context > 1) CHECK(largest > 1e4 * tolerance);
  }
}

}  // namespace

TEST_CASE("byte_gpt gradient of every parameter of very small models agrees with differences") {
  check_against_differences({1, 4, 2, 3, 5}, 1);  // fewer positions than sum blocks
  check_against_differences({2, 6, 1, 5, 10}, 1);
  check_against_differences({1, 1, 1, 1, 1}, 1);  // one of everything: the norms give 0
}

TEST_CASE("byte_gpt gradient of tied embeddings agrees with differences") {
  check_against_differences({1, 4, 2, 3, 5, true}, 1);
  check_against_differences({2, 6, 1, 5, 10, true}, 1);
}

TEST_CASE("byte_gpt gradient of sampled parameters of byte_gpt_tiny agrees with differences") {
  check_against_differences(byte_gpt_tiny, 11);
}
