#include "cuda/optimizer/layered/layered_grads.hpp"

#include <doctest.h>

#include "tests/cuda/expect_error.hpp"
#include "tests/cuda/optimizer/overlap/layered_fixtures.hpp"

namespace zeroproof::tests::layered_grads_test {
namespace {

class Counts : public GradSource {
 public:
  TensorView micro_batch_grad(std::int64_t) override {
    FAIL("leaves come from the model");
    return {};
  }
  std::int64_t num_tokens(std::int64_t micro_batch) const override { return 10 + micro_batch; }
  bool has_grad(std::int64_t micro_batch, std::int64_t tensor) const override {
    return micro_batch == tensor;
  }
};

TEST_CASE(
    "LayeredGrads: whole gradients, repeatedly, with memory held from the first one "
    "on") {
  constexpr auto grad = static_cast<std::size_t>(MemoryClass::grad);
  const FlatLayout layout = odd_layout();
  SyntheticModel model(layout, units_from(layout, {0, 3, 6}), {0, 1, 2, 0});
  for (const DType grad_dtype : {DType::fp32, DType::bf16}) {
    GuardedBuffer params = whole_params(layout, DType::bf16, 1);
    Counts counts;
    cuda::MemoryLedger ledger;
    {
      cuda::LayeredGrads leaves(model, counts, layout, params.view(), grad_dtype, ledger);
      CHECK(ledger.use().now[grad] == 0);
      for (std::int64_t version = 1; version < 3; ++version) {
        const GuardedBuffer now = whole_params(layout, DType::bf16, version);
        std::memcpy(params.data(), now.data(), static_cast<std::size_t>(now.view().num_bytes()));
        for (const std::int64_t j : {0, 3, 0}) {
          const GuardedBuffer expected = expected_leaf(layout, model, params.view(), grad_dtype, j);
          const TensorView leaf = leaves.micro_batch_grad(j);
          CHECK(leaf.dtype == grad_dtype);
          const auto* bytes = static_cast<const std::byte*>(leaf.data);
          CHECK(differing(layout, {bytes, bytes + leaf.num_bytes()}, expected) == 0);
        }
      }
      CHECK(ledger.use().now[grad] == layout.padded_numel() * num_bytes(grad_dtype));
      CHECK(leaves.num_tokens(2) == 12);
      CHECK((leaves.has_grad(2, 2) && !leaves.has_grad(2, 1)));
      CHECK(leaves.layers() == nullptr);
    }
    CHECK(ledger.use().now[grad] == 0);
    CHECK(ledger.use().peak[grad] == layout.padded_numel() * num_bytes(grad_dtype));
  }
}

/// Counts units whose gradient is not NaN at their first backward visit.
class Looking : public SyntheticModel {
 public:
  using SyntheticModel::SyntheticModel;
  void backward(int unit, const TensorView& param, const TensorView& grad) override {
    if (unit != 0) {  // the tied unit is visited again
      for (std::int64_t i = 0; i < grad.numel; ++i)
        numbers += load(grad, i) == load(grad, i) ? 1 : 0;
    }
    SyntheticModel::backward(unit, param, grad);
  }
  std::int64_t numbers = 0;
};

TEST_CASE("LayeredGrads: every gradient starts as NaN, also the second one in the same memory") {
  const FlatLayout layout = odd_layout();
  const GuardedBuffer params = whole_params(layout, DType::bf16, 1);
  const Counts counts;
  cuda::MemoryLedger ledger;
  Looking model(layout, units_from(layout, {0, 3, 6}), {0, 1, 2, 0});
  cuda::LayeredGrads leaves(model, counts, layout, params.view(), DType::fp32, ledger);
  for (const std::int64_t j : {0, 1, 0}) leaves.micro_batch_grad(j);
  CHECK(model.numbers == 0);
}

/// Writes past the end of the last unit's gradient.
class Overrunning : public SyntheticModel {
 public:
  using SyntheticModel::SyntheticModel;
  void backward(int unit, const TensorView& param, const TensorView& grad) override {
    SyntheticModel::backward(unit, param, grad);
    if (unit == 1) static_cast<char*>(grad.data)[grad.num_bytes()] = 1;
  }
};

TEST_CASE(
    "LayeredGrads: a model that does not match, or writes outside its gradient, is an error") {
  const FlatLayout layout = odd_layout();
  const GuardedBuffer params = whole_params(layout, DType::bf16, 1);
  const Counts counts;
  cuda::MemoryLedger ledger;
  Overrunning wrong(layout, units_from(layout, {0, 3}), {0, 1});
  cuda::LayeredGrads leaves(wrong, counts, layout, params.view(), DType::fp32, ledger);
  expect_error(ErrorCode::internal, [&] { static_cast<void>(leaves.micro_batch_grad(0)); });
  SyntheticModel short_model(layout, {{0, 4096}}, {0});
  expect_error(ErrorCode::invalid_argument, [&] {
    cuda::LayeredGrads(short_model, counts, layout, params.view(), DType::fp32, ledger);
  });
  expect_error(ErrorCode::invalid_argument,
               [&] { cuda::LayeredGrads(wrong, counts, layout, {}, DType::fp32, ledger); });
}

}  // namespace
}  // namespace zeroproof::tests::layered_grads_test
