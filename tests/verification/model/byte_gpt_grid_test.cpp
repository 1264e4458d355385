// Parts of a gradient, computed on process grids, against the gradient of one rank.

#include <doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/verification/model/byte_gpt_grid_support.hpp"

namespace byte_gpt_grid_test {

using namespace zeroproof;
using namespace zeroproof::workload;

namespace {

struct Size {
  int cp;
  int tp;
};

constexpr Size sizes[] = {{1, 1}, {1, 2}, {2, 1}, {2, 2}, {1, 4},
                          {4, 1}, {2, 4}, {4, 2}, {1, 8}, {8, 1}};

ByteGptShape shape_for(int tp, bool swiglu = false) {
  ByteGptShape shape = tp == 8 ? byte_gpt_grid_shape8 : byte_gpt_grid_shape;
  shape.swiglu = swiglu;
  return shape;
}

Span<const std::uint8_t> some_tokens(std::size_t first, std::size_t count) {
  return Span<const std::uint8_t>(reinterpret_cast<const std::uint8_t*>(sentence.data()),
                                  sentence.size())
      .subspan(first, count);
}

template <class Real>
void check_parts(Model<Real>& model, Size size, Span<const std::uint8_t> tokens, Real loss_scale,
                 InstructionSet set = best_instruction_set()) {
  INFO("cp ", size.cp, ", tp ", size.tp, ", ", tokens.size(), " tokens, ", name(set));
  const double loss = byte_gpt_loss_and_grad<Real>(model.shape, model.layout, model.params, tokens,
                                                   loss_scale, Span<Real>(model.grad));
  GridWorlds worlds(size.cp, size.tp);
  const GridParts<Real> parts = grid_parts(worlds, model, tokens, loss_scale, set);
  for (const double of_rank : parts.losses) CHECK(of_rank == loss);
  CHECK(different_tensors(model, combined_leaf(model, parts, size.cp, size.tp), model.grad) == "");
}

}  // namespace

TEST_CASE(
    "byte_gpt on a grid: the parts of all ranks fold to the gradient of one rank, bit for bit") {
  for (const Size& size : sizes) {
    Model<float> model = rough_model<float>(shape_for(size.tp));
    for (const InstructionSet set : {InstructionSet::baseline, best_instruction_set()}) {
      check_parts(model, size, tokens_of(model.shape), 8.0F, set);
    }
  }
}

TEST_CASE("byte_gpt on a grid: micro-batches with fewer positions than blocks, and with one") {
  for (const Size& size : sizes) {
    Model<float> model = rough_model<float>(shape_for(size.tp));
    for (const std::size_t count : {2, 3, 6, 9, 13}) {
      check_parts(model, size, some_tokens(count, count), 0.5F);
    }
  }
}

TEST_CASE("byte_gpt on a grid: more ranks than hidden units, one layer, many positions, fp64") {
  for (const Size& size : sizes) {
    Model<float> narrow = rough_model<float>({1, 8, 8, 3, 5});
    check_parts(narrow, size, tokens_of(narrow.shape), 1.0F);
    Model<float> longer = rough_model<float>({1, 16, 8, 65, 41});
    check_parts(longer, size, tokens_of(longer.shape), 1.0F);
    Model<double> wide = rough_model<double>({1, 16, 8, 9, 13});
    check_parts(wide, size, tokens_of(wide.shape), 1.0);
  }
}

TEST_CASE("byte_gpt on a grid: RMS norms, gates and the contract's softmax and cross-entropy") {
  for (const Size& size : sizes) {
    Model<float> model = rough_model<float>(shape_for(size.tp, true));
    check_parts(model, size, tokens_of(model.shape), 8.0F);
    for (const std::size_t count : {2, 6, 9})
      check_parts(model, size, some_tokens(count, count), 0.5F);
    Model<float> narrow = rough_model<float>({1, 8, 8, 3, 5, false, true});
    check_parts(narrow, size, tokens_of(narrow.shape), 1.0F);
    Model<float> longer = rough_model<float>({1, 16, 8, 65, 41, false, true});
    check_parts(longer, size, tokens_of(longer.shape), 1.0F);
    Model<double> wide = rough_model<double>({1, 16, 8, 9, 13, false, true});
    check_parts(wide, size, tokens_of(wide.shape), 1.0);
  }
}

TEST_CASE("byte_gpt on a grid: the same gradients overflow as on one rank") {
  Model<float> model = rough_model<float>(byte_gpt_grid_shape);
  for (const TensorSlot& slot : model.layout.tensors()) {  // the head's gradient then exceeds 1
    if (slot.name == "final_norm.gain")
      std::fill_n(model.params.begin() + slot.begin, slot.numel, 8.0F);
  }
  for (const Size& size : {Size{2, 2}, Size{1, 4}, Size{4, 1}}) {
    check_parts(model, size, tokens_of(model.shape), std::numeric_limits<float>::max());
    const auto finite = std::ranges::count_if(model.grad, [](float g) { return std::isfinite(g); });
    CHECK(finite > 0);
    CHECK(finite < std::ssize(model.grad));
  }
}

TEST_CASE("byte_gpt on a grid: a rank without positions has +0 everywhere") {
  const Model<float> model = rough_model<float>(byte_gpt_grid_shape);
  GridWorlds worlds(8, 1);
  // With 8 blocks and one position, the last block has it.
  const auto parts = grid_parts(worlds, model, some_tokens(0, 2), 1.0F, best_instruction_set());
  for (std::size_t rank = 0; rank < 8; ++rank) {
    bool all_zero = true;
    for (const TensorSlot& slot : model.layout.tensors()) {
      for (std::int64_t i = slot.begin; i < slot.begin + slot.numel; ++i) {
        const float g = parts.grads[rank][i];
        all_zero = all_zero && g == 0.0F && !std::signbit(g);
      }
    }
    CAPTURE(rank);
    CHECK(all_zero == (rank < 7));
  }
}

TEST_CASE("byte_gpt on a grid: other orders of combining the parts give other bits") {
  Model<float> model = rough_model<float>(byte_gpt_grid_shape);
  model.loss_and_grad();
  using Node = std::function<float(int, int)>;
  const PartFold<float> one_after_another = [](const Node& node, int cp, int tp) {
    float sum = node(0, 0);
    for (int u = 1; u < cp * tp; ++u) sum += node(u / tp, u % tp);
    return sum;
  };
  const PartFold<float> cp_first = [](const Node& node, int cp, int tp) {
    return contract_fold<float>([&](int t, int c) { return node(c, t); }, tp, cp);
  };
  const PartFold<float> first_twice = [](const Node& node, int cp, int tp) {
    return contract_fold<float>(node, cp, tp) + node(0, 0);
  };
  const PartFold<float> one_part = [](const Node& node, int, int) { return node(0, 0); };
  const Size size = {2, 4};
  GridWorlds worlds(size.cp, size.tp);
  const auto parts =
      grid_parts(worlds, model, tokens_of(model.shape), 1.0F, best_instruction_set());
  const auto differs = [&](const PartFold<float>& fold) {
    return different_tensors(model, combined_leaf(model, parts, size.cp, size.tp, fold),
                             model.grad);
  };
  CHECK(differs(contract_fold<float>) == "");
  for (const PartFold<float>& wrong : {one_after_another, cp_first, first_twice, one_part}) {
    CHECK(differs(wrong).find("head.weight") != std::string::npos);
    CHECK(differs(wrong).find("final_norm.gain") != std::string::npos);
  }
}

TEST_CASE("byte_gpt on a grid: indivisible sizes are rejected") {
  const auto refusal = [](const ByteGptShape& shape, int cp, int tp) {
    GridWorlds worlds(cp, tp);
    std::vector<std::string> texts(cp * tp);
    worlds.run([&](int rank, const ByteGptGroups& groups) {
      try {
        ByteGptGrid(shape, groups, {});
      } catch (const Error& error) {
        texts[rank] = error.what();
      }
    });
    for (const std::string& text : texts) CHECK(text == texts[0]);
    return texts[0];
  };
  CHECK(refusal(byte_gpt_grid_shape, 2, 4).empty());
  CHECK(refusal(byte_gpt_tiny, 1, 2) ==
        "the model has 3 heads on 2 tensor parallel ranks (a head is never split); choose a number "
        "of ranks "
        "that divides the heads");
  CHECK(refusal(byte_gpt_grid_shape, 3, 1) ==
        "the context parallel group has 3 ranks (sums are split into 8 blocks); choose 1, 2, 4 or "
        "8 ranks");
  CHECK(refusal(byte_gpt_grid_shape, 4, 4) ==
        "got 4 context times 4 tensor parallel ranks (together they divide the 8 blocks of "
        "positions); "
        "choose sizes with a product of at most 8");
  ByteGptShape tied = byte_gpt_grid_shape;
  tied.tied = true;
  CHECK(refusal(tied, 1, 1).empty());
  CHECK(refusal(tied, 2, 1) ==
        "embeddings are tied and 2 ranks share a micro-batch (their gradient adds two sums over "
        "positions, and "
        "parts of it would fold to other bits); untie them or use one rank per micro-batch");
}

}  // namespace byte_gpt_grid_test
