#include <doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "common/base/digest.hpp"
#include "common/base/error.hpp"
#include "common/base/parallel_for.hpp"
#include "tests/verification/model/byte_gpt_support.hpp"

namespace byte_gpt_test {

using namespace zeroproof;
using namespace zeroproof::workload;

TEST_CASE("byte_gpt: a shorter micro-batch has the bits of a model with a shorter context") {
  const ByteGptShape shape{2, 15, 3, 37, 13};
  Model<float> model = rough_model<float>(shape);
  for (const int context : {1, 7, 12}) {
    CAPTURE(context);
    ByteGptShape shorter = shape;
    shorter.context = context;
    Model<float> small(shorter);
    for (std::size_t t = 0; t < small.layout.tensors().size(); ++t) {
      const TensorSlot& to = small.layout.tensors()[t];
      std::copy_n(model.params.begin() + model.layout.tensors()[t].begin, to.numel,
                  small.params.begin() + to.begin);
    }
    const double expected = small.loss_and_grad(0.5F);
    std::ranges::fill(model.grad, 7.0F);  // old values must be overwritten
    const double got = byte_gpt_loss_and_grad<float>(shape, model.layout, model.params,
                                                     tokens_of(shorter), 0.5F, model.grad);
    CHECK(got == expected);
    CHECK(byte_gpt_loss<float>(shape, model.layout, model.params, tokens_of(shorter)) == expected);
    for (std::size_t t = 0; t < small.layout.tensors().size(); ++t) {
      const TensorSlot& slot = model.layout.tensors()[t];
      const TensorSlot& part = small.layout.tensors()[t];
      CAPTURE(slot.name);
      CHECK(std::memcmp(&model.grad[slot.begin], &small.grad[part.begin],
                        static_cast<std::size_t>(part.numel) * sizeof(float)) == 0);
      for (std::int64_t i = slot.begin + part.numel; i < slot.begin + slot.numel; ++i) {
        const float value = model.grad[i];  // unused positions
        CHECK((value == 0.0F && !std::signbit(value)));
      }
    }
  }
}

TEST_CASE("byte_gpt presets: stated sizes and odd tensors") {
  CHECK(FlatLayout(byte_gpt_params(byte_gpt_main)).numel() == 973488);
  const FlatLayout tiny(byte_gpt_params(byte_gpt_tiny));
  CHECK(tiny.numel() == 12269);
  CHECK(std::ranges::any_of(tiny.tensors(),
                            [](const TensorSlot& slot) { return slot.numel % 2 == 1; }));
  CHECK(tiny.tensors()[4].name == "block0.attention.query.weight");
  CHECK(tiny.tensors()[4].shape == std::vector<std::int64_t>{15, 15});
  CHECK(FlatLayout(byte_gpt_params(byte_gpt_swiglu_main)).numel() == 968616);
  const FlatLayout gated(byte_gpt_params(byte_gpt_swiglu_tiny));
  CHECK(gated.numel() == 12250);
  CHECK(std::ranges::any_of(gated.tensors(),
                            [](const TensorSlot& slot) { return slot.numel % 2 == 1; }));
  CHECK(gated.tensors()[12].name == "block0.mlp.gate.weight");
  CHECK(gated.tensors()[12].shape == std::vector<std::int64_t>{15, 25});
  const FlatLayout uneven(byte_gpt_params(byte_gpt_uneven));
  CHECK(uneven.numel() == 162749);
  CHECK(uneven.tensors().size() == 277);
  CHECK(uneven.tensors()[14].name == "block0.mlp.up.weight");
  CHECK(uneven.tensors()[14].numel == 72006);
  CHECK(std::ranges::count(uneven.tensors(), 1, &TensorSlot::numel) == 16);
}

namespace {

void check_fp32_against_fp64(const ByteGptShape& shape) {
  Model<float> model = rough_model<float>(shape);
  Model<double> exact = rough_model<double>(shape);
  std::ranges::copy(model.params, exact.params.begin());
  // byte_gpt_literal_test.cpp compares the losses of both with the formulas, bit for bit.
  CHECK(model.loss_and_grad() == model.loss());
  CHECK(exact.loss_and_grad() == exact.loss());
  for (const TensorSlot& slot : model.layout.tensors()) {
    // The key bias has gradient 0 (see above), so its rounding errors are measured against the key
    // weights.
    const bool key_bias = slot.name.ends_with("key.bias");
    const TensorSlot& scale_slot = key_bias ? *(&slot - 1) : slot;
    double largest = 0;
    double error = 0;
    for (std::int64_t i = scale_slot.begin; i < scale_slot.begin + scale_slot.numel; ++i) {
      largest = std::max(largest, std::fabs(exact.grad[i]));
    }
    for (std::int64_t i = slot.begin; i < slot.begin + slot.numel; ++i) {
      const auto k = static_cast<std::size_t>(i);
      const double difference = std::fabs(double{model.grad[k]} - exact.grad[k]);
      if (!(difference <= error) && !std::isnan(error)) error = difference;
    }
    // A blocked sum of n terms rounds a term about n / 8 + 4 times. The longest path through the
    // model, from the first tensor to the loss and back, has some 450 roundings; if each changed
    // the result by 2^-24 in the same direction, the error would be 2.7e-5. (The largest observed
    // is 2.5e-6.)
    INFO(slot.name, ": error ", error, ", largest gradient ", largest);
    CHECK(error <= 2.7e-5 * largest);
  }
}

}  // namespace

TEST_CASE("byte_gpt gradient: fp32 equals fp64 up to rounding") {
  check_fp32_against_fp64(byte_gpt_tiny);
  check_fp32_against_fp64(byte_gpt_swiglu_tiny);
}

TEST_CASE("byte_gpt gradient: scales exactly with a power of two, the loss does not") {
  for (const ByteGptShape& shape : {byte_gpt_tiny, byte_gpt_swiglu_tiny}) {
    Model<float> model = initial_model(shape);
    const double loss = model.loss_and_grad(1.0F);
    const std::vector<float> plain = model.grad;
    for (const float scale : {1024.0F, 0x1p20F, 0x1p-10F}) {
      CHECK(model.loss_and_grad(scale) == loss);
      std::vector<float> expected = plain;
      for (float& g : expected) g *= scale;
      CHECK(same_bits(model.grad, expected));
    }
  }
}

TEST_CASE("byte_gpt gradient: is not finite when the loss scale is too large") {
  // Normalised inputs of the head 64 times larger than usual make its gradient larger than 1.
  Model<float> model = initial_model(byte_gpt_tiny);
  for (const TensorSlot& slot : model.layout.tensors()) {
    if (slot.name == "final_norm.gain")
      std::fill_n(model.params.begin() + slot.begin, slot.numel, 64.0F);
  }
  const auto finite = [](float g) { return std::isfinite(g); };
  const double loss = model.loss_and_grad(0x1p100F);
  CHECK(std::ranges::all_of(model.grad, finite));
  CHECK(model.loss_and_grad(std::numeric_limits<float>::max()) == loss);
  CHECK_FALSE(std::ranges::all_of(model.grad, finite));
}

TEST_CASE("byte_gpt: the same bits on every thread and instruction set") {
  for (const ByteGptShape& shape : {byte_gpt_tiny, ByteGptShape{1, 34, 2, 65, 24},
                                    ByteGptShape{1, 34, 2, 65, 24, false, true}}) {
    Model<float> model = initial_model(shape);
    const double loss = model.loss_and_grad(8.0F, InstructionSet::baseline);
    for (const InstructionSet set : usable_instruction_sets()) {
      CAPTURE(name(set));
      for (const int threads : {1, 2}) {
        constexpr std::int64_t calls = 6;
        std::vector<std::vector<float>> grads(calls, std::vector<float>(model.size()));
        std::vector<double> losses(calls);
        parallel_for(threads, calls, [&](std::int64_t i) {
          const auto k = static_cast<std::size_t>(i);
          // Odd calls use another micro-batch, so that shared state would change results.
          const auto tokens = tokens_of(shape, i % 2 == 0 ? 0 : 17);
          losses[k] = byte_gpt_loss_and_grad<float>(shape, model.layout, model.params, tokens, 8.0F,
                                                    grads[k], set);
        });
        for (std::size_t k = 0; k < calls; k += 2) {
          CHECK(losses[k] == loss);
          CHECK(same_bits(grads[k], model.grad));
          CHECK_FALSE(same_bits(grads[k + 1], model.grad));
          CHECK(same_bits(grads[k + 1], grads[1]));
        }
      }
    }
  }
}

TEST_CASE("byte_gpt: writes every element of every tensor, does not read or write padding") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const ByteGptShape& shape : {byte_gpt_tiny, byte_gpt_swiglu_tiny}) {
    Model<float> model(shape);
    std::ranges::fill(model.params, nan);
    init_parameters(model.shape, model.layout, 1, model.params);
    std::ranges::fill(model.grad, nan);
    CHECK(std::isfinite(model.loss_and_grad()));
    int wrong = 0;
    for (std::int64_t i = 0; i < model.layout.padded_numel(); ++i) {
      const auto k = static_cast<std::size_t>(i);
      const bool padding = model.layout.tensor_at(i) < 0;
      if (std::isnan(model.params[k]) != padding || std::isnan(model.grad[k]) != padding) ++wrong;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE(
    "byte_gpt gradient: an embedding row is the blocked sum over the positions that have its "
    "byte") {
  // Each position has its own position embedding, whose gradient is that position's term of the
  // sum.
  Model<float> model = initial_model({1, 6, 2, 5, 41});
  model.loss_and_grad();
  const auto tokens = tokens_of(model.shape);
  const std::int64_t width = model.shape.width;
  const std::int64_t context = model.shape.context;
  const float* embedding = model.grad.data() + model.layout.tensors()[0].begin;
  const float* positions = model.grad.data() + model.layout.tensors()[1].begin;
  for (std::int64_t k = 0; k < vocabulary * width; ++k) {
    float s[8] = {};
    for (std::int64_t i = 0; i < context; ++i) {
      int block = 0;
      while (i >= context * (block + 1) / 8) ++block;
      if (tokens[i] == k / width) s[block] += positions[i * width + k % width];
    }
    const float expected = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
    REQUIRE(std::bit_cast<std::uint32_t>(expected) == std::bit_cast<std::uint32_t>(embedding[k]));
  }
}

TEST_CASE("byte_gpt gradient: has the recorded bits on every machine and compiler") {
  // Recorded once. Another value means that an operation or order has changed, here or in the
  // compiler.
  const auto digest_of = [](const ByteGptShape& shape) {
    Model<float> model = initial_model(shape);
    Hasher hasher;
    hasher.add(model.loss_and_grad(1024.0F));
    for (const TensorSlot& slot : model.layout.tensors()) {
      hasher.add(TensorView{model.grad.data() + slot.begin, DType::fp32, slot.numel});
    }
    return to_hex(hasher.digest());
  };
  CHECK(digest_of(byte_gpt_tiny) == "6280f8f7fe50faf107eb30ded62d7feb");
  CHECK(digest_of(byte_gpt_main) == "31847e2fd568cab3375b077948c5e314");
  CHECK(digest_of(byte_gpt_swiglu_tiny) == "4b7f3945dcb8cc2ab26776c0707c370a");
  CHECK(digest_of(byte_gpt_swiglu_main) == "086e19316113e844cc48f6813d35d61c");
}

TEST_CASE("byte_gpt gradient: +0 for embedding rows of bytes that do not occur") {
  Model<float> model = initial_model(byte_gpt_tiny);
  model.loss_and_grad();
  const auto tokens = tokens_of(model.shape).first(model.shape.context);
  const TensorSlot& embedding = model.layout.tensors()[0];
  for (std::int64_t token = 0; token < vocabulary; ++token) {
    const auto row = Span<const float>(model.grad)
                         .subspan(embedding.begin + token * model.shape.width, model.shape.width);
    const bool occurs = std::ranges::find(tokens, token) != tokens.end();
    const bool zero = std::ranges::all_of(row, [](float g) { return g == 0 && !std::signbit(g); });
    CAPTURE(token);
    CHECK(zero != occurs);
  }
}

TEST_CASE("byte_gpt loss: the loss alone equals the loss returned with the gradient") {
  Model<float> model = initial_model(byte_gpt_tiny);
  CHECK(model.loss() == model.loss_and_grad());
}

TEST_CASE("byte_gpt init: the initial loss is near ln 256") {
  // Logits of the initial model have a variance of about width * 0.02^2, which raises the loss
  // above ln 256 by half of it (0.003 and 0.027) on average over targets; one micro-batch deviates
  // from that by up to 3 * sqrt(variance / context) = 0.06 and 0.09.
  for (const ByteGptShape& shape : {byte_gpt_tiny, byte_gpt_main}) {
    const double loss = initial_model(shape).loss();
    CAPTURE(loss);
    CHECK(std::fabs(loss - std::log(256.0)) < 0.12);
  }
}

TEST_CASE("byte_gpt init: the stated distribution, determined by the seed alone") {
  const Model<float> model = initial_model(byte_gpt_main);
  for (const TensorSlot& slot : model.layout.tensors()) {
    CAPTURE(slot.name);
    double sum = 0;
    double squares = 0;
    for (std::int64_t i = slot.begin; i < slot.begin + slot.numel; ++i) {
      const double x = model.params[i];
      sum += x;
      squares += x * x;
    }
    const auto count = static_cast<double>(slot.numel);
    if (slot.shape.size() == 1) {
      const double value = slot.name.ends_with(".gain") ? 1 : 0;
      CHECK(sum == value * count);
      CHECK(squares == value * count);
      continue;
    }
    const bool residual =
        slot.name.ends_with("output.weight") || slot.name.ends_with("down.weight");
    const double expected =
        slot.name.ends_with("embedding.weight") ? 0.2 : (residual ? 0.02 / std::sqrt(8.0) : 0.02);
    // Five standard errors: that of the mean is s / sqrt(n), that of the deviation below s / sqrt(2
    // n) for these short tails.
    CHECK(std::fabs(sum / count) < 5 * expected / std::sqrt(count));
    CHECK(std::fabs(std::sqrt(squares / count) - expected) < 5 * expected / std::sqrt(2 * count));
  }
  Model<float> other(byte_gpt_main);
  init_parameters(other.shape, other.layout, 1, other.params);
  CHECK(same_bits(other.params, model.params));
  init_parameters(other.shape, other.layout, 2, other.params);
  CHECK_FALSE(same_bits(other.params, model.params));
}

TEST_CASE("byte_gpt: invalid shapes and buffers are rejected") {
  CHECK_THROWS_WITH_AS(
      byte_gpt_params({1, 10, 3, 4, 4}),
      "the model has width 10 and 3 heads (heads divide the width equally); choose "
      "a width divisible "
      "by heads",
      Error);
  CHECK_THROWS_WITH_AS(
      byte_gpt_params({1, 4, 2, 0, 4}),
      "the model has hidden = 0 (every extent is in 1..1048576); choose another shape", Error);
  for (const ByteGptShape& shape :
       {ByteGptShape{0, 4, 2, 4, 4}, ByteGptShape{1, 0, 2, 4, 4}, ByteGptShape{1, 4, 0, 4, 4},
        ByteGptShape{1, 4, 2, 4, -1}, ByteGptShape{1, 1 << 21, 2, 4, 4}}) {
    CHECK_THROWS_AS(byte_gpt_params(shape), Error);
  }

  Model<float> model = initial_model(byte_gpt_tiny);
  const auto call = [&](const FlatLayout& layout, Span<const float> params,
                        Span<const std::uint8_t> tokens, Span<float> grad) {
    byte_gpt_loss_and_grad<float>(model.shape, layout, params, tokens, 1.0F, grad);
  };
  const auto tokens = tokens_of(model.shape);
  const Span<float> shorter = Span<float>(model.grad).first(model.grad.size() - 1024);
  const FlatLayout foreign(byte_gpt_params({2, 15, 3, 38, 13}));
  CHECK_NOTHROW(call(model.layout, model.params, tokens, model.grad));
  CHECK_THROWS_AS(call(model.layout, model.params, tokens, shorter), Error);
  CHECK_THROWS_AS(call(model.layout, shorter, tokens, model.grad), Error);
  CHECK_THROWS_AS(call(foreign, model.params, tokens, model.grad), Error);
  CHECK_THROWS_WITH_AS(call(model.layout, model.params, tokens.first(1), model.grad),
                       "a micro-batch has 1 tokens, the model takes 2 to 14 (each position "
                       "predicts the byte after "
                       "it); pass at most context + 1 bytes",
                       Error);
  CHECK_THROWS_AS(init_parameters(model.shape, foreign, 1, model.params), Error);
}

}  // namespace byte_gpt_test
