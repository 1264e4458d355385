// Embeddings that are the head too, and sums over positions that start at +0.

#include <doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/verification/model/byte_gpt_support.hpp"
#include "verification/model/byte_gpt_ends.hpp"

namespace byte_gpt_tied_test {

using namespace zeroproof;
using namespace zeroproof::workload;

namespace {

const TensorSlot& slot_of(const FlatLayout& layout, const std::string& name) {
  return *std::ranges::find(layout.tensors(), name, &TensorSlot::name);
}

}  // namespace

TEST_CASE("byte_gpt tied: no head tensor, the last tensors are those of the final norm") {
  ByteGptShape shape = byte_gpt_tiny;
  const std::vector<ParamSpec> untied = byte_gpt_params(shape);
  shape.tied = true;
  const std::vector<ParamSpec> tied = byte_gpt_params(shape);
  REQUIRE(tied.size() + 1 == untied.size());
  for (std::size_t k = 0; k < tied.size(); ++k) CHECK(tied[k].name == untied[k].name);
  CHECK(untied.back().name == "head.weight");
}

TEST_CASE("byte_gpt tied: the gradient is that of the head, transposed, plus that of the lookup") {
  const ByteGptShape shape = byte_gpt_tiny;
  ByteGptShape tied_shape = shape;
  tied_shape.tied = true;
  Model<float> tied = rough_model<float>(tied_shape);
  // The same model with a separate head, a copy of the embedding, has the two parts in two tensors.
  Model<float> apart(shape);
  for (std::size_t k = 0; k < tied.layout.tensors().size(); ++k) {
    const TensorSlot& from = tied.layout.tensors()[k];
    std::copy_n(tied.params.begin() + from.begin, from.numel,
                apart.params.begin() + apart.layout.tensors()[k].begin);
  }
  const std::int64_t width = shape.width;
  const std::int64_t head = slot_of(apart.layout, "head.weight").begin;
  const auto transposed = [&](std::int64_t token, std::int64_t j) {
    return static_cast<std::size_t>(head + j * vocabulary + token);
  };
  for (std::int64_t token = 0; token < vocabulary; ++token) {
    for (std::int64_t j = 0; j < width; ++j) {
      apart.params[transposed(token, j)] = tied.params[token * width + j];
    }
  }
  for (const InstructionSet set : usable_instruction_sets()) {
    CHECK(tied.loss_and_grad(4.0F, set) == apart.loss_and_grad(4.0F, set));
    for (std::int64_t token = 0; token < vocabulary; ++token) {
      for (std::int64_t j = 0; j < width; ++j) {
        const auto k = static_cast<std::size_t>(token * width + j);
        const float expected = apart.grad[transposed(token, j)] + apart.grad[k];
        REQUIRE(std::memcmp(&expected, &tied.grad[k], sizeof(float)) == 0);
      }
    }
    for (std::size_t k = 1; k < tied.layout.tensors().size(); ++k) {
      const TensorSlot& slot = tied.layout.tensors()[k];
      CAPTURE(slot.name);
      CHECK(std::equal(tied.grad.begin() + slot.begin, tied.grad.begin() + slot.begin + slot.numel,
                       apart.grad.begin() + apart.layout.tensors()[k].begin));
    }
  }
}

TEST_CASE("byte_gpt tied: the initial loss is near ln 256") {
  ByteGptShape shape = byte_gpt_main;
  shape.tied = true;
  // The tolerance of the untied test: the logits have the variance of those of a separate head.
  CHECK(std::fabs(initial_model(shape).loss() - std::log(256.0)) < 0.12);
}

TEST_CASE(
    "byte_gpt embeddings: sums over positions start at +0, with one position and "
    "with none") {
  const ByteGptShape shape{1, 3, 1, 1, 5};
  const FlatLayout layout(byte_gpt_params(shape));
  std::vector<float> params(layout.padded_numel());
  ByteGptShape filled = shape;
  filled.context = 4;  // without the last position
  const Pass<float> pass{best_instruction_set(), filled, ByteGptPlace{},
                         Tensors<const float>(layout, params)};
  const std::vector<std::uint8_t> tokens = {7, 7, 8, 9, 10};
  Buffer<float> dx(4, 3);
  std::fill_n(dx.view().data, 12, -0.0F);
  for (const bool adds : {false, true}) {
    std::vector<float> grad(params.size(), adds ? 0.0F : 7.0F);
    embeddings_backward<float>(pass, tokens, dx.view(), Tensors<float>(layout, grad), adds);
    for (int tensor = 0; tensor < 2; ++tensor) {
      const TensorSlot& slot = layout.tensors()[tensor];
      int wrong = 0;
      for (std::int64_t i = slot.begin; i < slot.begin + slot.numel; ++i) {
        const float g = grad[i];
        if (g != 0 || std::signbit(g)) ++wrong;
      }
      CHECK(wrong == 0);
    }
  }
}

}  // namespace byte_gpt_tied_test
