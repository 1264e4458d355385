// byte_gpt run unit by unit, on memory that is freed after every call.

#include <doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "tests/verification/model/byte_gpt_grid_support.hpp"
#include "tests/verification/model/byte_gpt_layered_support.hpp"

namespace byte_gpt_layered_test {

using namespace zeroproof;
using namespace zeroproof::workload;

TEST_CASE("byte_gpt layered: units are the layers, with boundaries at tensor starts") {
  for (const bool tied : {false, true}) {
    ByteGptShape shape = byte_gpt_tiny;
    shape.tied = tied;
    const ByteGptLayered model(shape, {});
    const FlatLayout layout(byte_gpt_params(shape));
    REQUIRE(model.units().size() == 4);
    CHECK(model.visits() ==
          (tied ? std::vector<int>{0, 1, 2, 3, 0} : std::vector<int>{0, 1, 2, 3}));
    std::int64_t end = 0;
    const std::string firsts[] = {"token_embedding.weight", "block0.attention_norm.gain",
                                  "block1.attention_norm.gain", "final_norm.gain"};
    for (std::size_t u = 0; u < 4; ++u) {
      CHECK(model.units()[u].begin == end);
      end = model.units()[u].end;
      const std::int64_t first = layout.tensor_at(model.units()[u].begin);
      CHECK(layout.tensors()[first].name == firsts[u]);
    }
    CHECK(end == layout.padded_numel());
  }
}

TEST_CASE(
    "byte_gpt layered: the gradient of the whole model, in every dtype, on memory that is "
    "allocated and freed") {
  for (const DType param_dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    for (const DType grad_dtype : {DType::fp32, DType::bf16, DType::fp16}) {
      // Both kinds of blocks, each in some of the nine pairs.
      const bool gated = param_dtype == DType::bf16 || grad_dtype == DType::bf16;
      const Model<float> model = rough_model<float>(gated ? byte_gpt_swiglu_tiny : byte_gpt_tiny);
      const Elements params = rounded(param_dtype, model.params);
      std::vector<float> wide(model.size());
      for (std::size_t i = 0; i < wide.size(); ++i) wide[i] = params.get(i);
      const ByteGptData data = windows(model.shape, 1024.0F);
      ByteGptLayered layered(model.shape, data);
      CHECK(std::isnan(layered.loss()));
      for (std::int64_t j = 0; j < 4; ++j) {
        INFO(name(param_dtype), " parameters, ", name(grad_dtype), " gradient, micro-batch ", j);
        std::vector<float> expected(model.size());
        const double loss = byte_gpt_loss_and_grad<float>(model.shape, model.layout, wide,
                                                          data(j).tokens, 1024.0F, expected);
        Elements leaf = filled(grad_dtype, model.size(), unwritten);
        run_in_passing(layered, j, params, leaf);
        check_leaf(model.layout, leaf, expected);
        CHECK(layered.loss() == loss);
        Elements copy = params;
        Elements again = filled(grad_dtype, model.size(), unwritten);
        run_layered(layered, j, copy.view(), again.view());
        check_leaf(model.layout, again, expected);
      }
    }
  }
}

TEST_CASE(
    "byte_gpt layered, tied: a second visit adds, in 16-bit gradients after a rounding of the "
    "first") {
  ByteGptShape shape = byte_gpt_tiny;
  shape.tied = true;
  Model<float> model = rough_model<float>(shape);
  const Elements params = rounded(DType::fp32, model.params);
  for (const DType grad_dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    CAPTURE(name(grad_dtype));
    ByteGptLayered layered(shape, windows(shape, 64.0F));
    Elements leaf = filled(grad_dtype, model.size(), unwritten);
    run_in_passing(layered, 0, params, leaf);
    CHECK(layered.loss() == model.loss_and_grad(64.0F));
    std::vector<float> expected = model.grad;
    if (grad_dtype != DType::fp32) {
      // The two parts are gradients of the same model with a separate head.
      ByteGptShape apart_shape = shape;
      apart_shape.tied = false;
      Model<float> apart(apart_shape);
      for (std::size_t k = 0; k < model.layout.tensors().size(); ++k) {
        const TensorSlot& from = model.layout.tensors()[k];
        std::copy_n(model.params.begin() + from.begin, from.numel,
                    apart.params.begin() + apart.layout.tensors()[k].begin);
      }
      const std::int64_t width = shape.width;
      const std::int64_t head = apart.layout.tensors().back().begin;
      for (std::int64_t i = 0; i < vocabulary * width; ++i) {
        apart.params[head + i % width * vocabulary + i / width] = model.params[i];
      }
      apart.loss_and_grad(64.0F);
      for (std::int64_t i = 0; i < vocabulary * width; ++i) {
        Elements first(grad_dtype, 1);
        first.set(0, apart.grad[head + i % width * vocabulary + i / width]);
        expected[i] = first.get(0) + apart.grad[i];
      }
    }
    check_leaf(model.layout, leaf, expected);
  }
}

TEST_CASE("byte_gpt layered: the callback gets every tensor once, when its gradient is complete") {
  for (const bool tied : {false, true}) {
    ByteGptShape shape = byte_gpt_tiny;
    shape.tied = tied;
    Model<float> model = rough_model<float>(shape);
    model.loss_and_grad();
    std::vector<int> seen(model.layout.tensors().size());
    const AfterGrad plant = [&](std::int64_t micro_batch, int tensor, const TensorView& grad) {
      CHECK(micro_batch == 0);
      const TensorSlot& slot = model.layout.tensors()[tensor];
      ++seen[tensor];
      REQUIRE(grad.numel == slot.numel);
      CHECK(std::memcmp(grad.data, &model.grad[slot.begin],
                        static_cast<std::size_t>(grad.num_bytes())) == 0);
      static_cast<float*>(grad.data)[grad.numel - 1] = 100.0F + static_cast<float>(tensor);
    };
    ByteGptLayered layered(shape, windows(shape, 1.0F), plant);
    Elements leaf = filled(DType::fp32, model.size(), unwritten);
    run_in_passing(layered, 0, rounded(DType::fp32, model.params), leaf);
    std::vector<float> expected = model.grad;
    for (std::size_t k = 0; k < seen.size(); ++k) {
      const TensorSlot& slot = model.layout.tensors()[k];
      CHECK(seen[k] == 1);
      expected[slot.begin + slot.numel - 1] = 100.0F + static_cast<float>(k);
    }
    check_leaf(model.layout, leaf, expected);
  }
}

TEST_CASE(
    "byte_gpt layered: calls in another order, of other lengths or dtypes are rejected, then it "
    "continues") {
  Model<float> model = rough_model<float>(byte_gpt_tiny);
  Elements params = rounded(DType::fp32, model.params);
  Elements grads = filled(DType::fp32, model.size(), unwritten);
  ByteGptLayered layered(model.shape, windows(model.shape, 1.0F));
  const auto param = [&](int unit) {
    const FlatRange range = layered.units()[unit];
    return params.part(range.begin, range.numel());
  };
  const auto grad = [&](int unit) {
    const FlatRange range = layered.units()[unit];
    return grads.part(range.begin, range.numel());
  };
  CHECK_THROWS_AS(layered.forward(0, param(0)), Error);  // before begin()
  layered.begin(0);
  CHECK_THROWS_WITH_AS(
      layered.forward(1, param(1)),
      "unit 1 was run forward as call 0 of a micro-batch (it needs the results of the units "
      "before it); call begin(), forward() in the order of visits() and backward() in reverse",
      Error);
  CHECK_THROWS_AS(layered.backward(0, param(0), grad(0)), Error);
  TensorView shorter = param(0);
  shorter.numel -= 1024;
  CHECK_THROWS_WITH_AS(
      layered.forward(0, shorter),
      "parameters of a unit have 4096 elements instead of 5120 (tensors would be read "
      "from wrong offsets); pass the unit with its padding",
      Error);
  TensorView wrong = param(0);
  wrong.dtype = DType::fp64;
  CHECK_THROWS_WITH_AS(layered.forward(0, wrong),
                       "parameters of a unit are fp64 (the model widens 16-bit formats only); pass "
                       "fp32, bf16 or fp16",
                       Error);
  for (int unit = 0; unit < 4; ++unit) layered.forward(unit, param(unit));
  CHECK_THROWS_AS(layered.forward(0, param(0)), Error);
  CHECK_THROWS_AS(layered.backward(2, param(2), grad(2)), Error);
  CHECK_THROWS_AS(layered.backward(3, param(3), grad(2)), Error);
  for (int unit = 3; unit >= 0; --unit) layered.backward(unit, param(unit), grad(unit));
  CHECK_THROWS_AS(layered.backward(0, param(0), grad(0)), Error);  // all done
  model.loss_and_grad();
  check_leaf(model.layout, grads, model.grad);
  // A pass that is abandoned midway leaves no state.
  layered.begin(1);
  layered.forward(0, param(0));
  Elements again = filled(DType::fp32, model.size(), unwritten);
  run_in_passing(layered, 0, params, again);
  check_leaf(model.layout, again, model.grad);
}

TEST_CASE(
    "byte_gpt layered on a grid: every rank has the parts of its whole pass, micro-batch after "
    "micro-batch") {
  struct Size {
    int cp, tp;
  };
  for (const Size& size : {Size{1, 1}, Size{2, 2}, Size{4, 1}, Size{1, 4}}) {
    const Model<float> model = rough_model<float>(byte_gpt_grid_shape);
    const ByteGptData data = windows(model.shape, 2.0F);
    GridWorlds worlds(size.cp, size.tp);
    std::vector<GridParts<float>> expected;
    for (std::int64_t j = 0; j < 3; ++j) {
      expected.push_back(grid_parts(worlds, model, data(j).tokens, 2.0F, best_instruction_set()));
    }
    worlds.run([&](int rank, const ByteGptGroups& groups) {
      const LocalModel<float> local(model, size.tp, rank % size.tp);
      ByteGptGrid grid(model.shape, groups, data);
      for (const DType grad_dtype : {DType::fp32, DType::fp16}) {
        for (std::int64_t j = 0; j < 3; ++j) {
          const GridParts<float>& parts = expected[j];
          Elements leaf = filled(grad_dtype, local.params.size(), unwritten);
          run_in_passing(grid, j, rounded(DType::fp32, local.params), leaf);
          check_leaf(local.layout, leaf, parts.grads[rank]);
          CHECK(grid.loss() == parts.losses[0]);
        }
      }
    });
  }
}

}  // namespace byte_gpt_layered_test
