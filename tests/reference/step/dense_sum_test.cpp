// The two gradient sums with fixed bits, and the third, which has none.

#include "tests/reference/step/dense_support.hpp"

using namespace zeroproof;
using namespace zeroproof::tests;

TEST_CASE("dense: gradient sums without fixed bits, or of too many micro-batches, are rejected") {
  const auto make = [](GradSum sum, std::int64_t micro_batches) {
    ThreeElements model;
    model.setup.grad_sum = sum;
    model.setup.micro_batches = micro_batches;
    reference::DenseOptimizer(model.setup, model.state());
  };
  ZP_CHECK_INVALID(make(GradSum::native, 2));
  ZP_CHECK_INVALID(make(GradSum::binned, 129));
  make(GradSum::binned, 128);
  make(GradSum::tree, 129);
}

TEST_CASE("dense: the binned sum differs in bits from the tree") {
  ThreeElements model;
  model.setup.micro_batches = 3;
  const std::vector<std::vector<float>> leaves = {
      {1, -0.0F, 2}, {0x1p-24F, -0.0F, 2}, {0x1p-24F, -0.0F, 2}};
  reference::DenseOptimizer tree(model.setup, model.state());
  CHECK(step(tree, leaves));
  CHECK(tree.last_step().grad_sum[0] == 1);
  CHECK(bits(tree.last_step().grad_sum[1]) == bits(-0.0F));
  model.setup.grad_sum = GradSum::binned;
  reference::DenseOptimizer binned(model.setup, model.state());
  CHECK(step(binned, leaves));
  CHECK(binned.last_step().grad_sum[0] == 1 + 0x1p-23F);
  CHECK(bits(binned.last_step().grad_sum[1]) == bits(0.0F));
  CHECK(binned.last_step().grad_sum[1024] == 6);
  CHECK(std::isnan(binned.last_step().grad_sum[2]));
}
