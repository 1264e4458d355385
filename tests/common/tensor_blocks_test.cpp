// Blocks of tensors and of parts of tensors, counted element by element.

#include "common/layout/tensor_blocks.hpp"

#include <doctest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/base/error.hpp"
#include "common/layout/tp_cut.hpp"
#include "common/step/scaled_params.hpp"

namespace tensor_blocks_test {

using namespace zeroproof;

namespace {

const std::vector<ParamSpec> params = {
    {"vector", {37}}, {"nothing", {0, 5}}, {"columns", {6, 24}},  {"rows", {16, 9}},
    {"one", {}},      {"deep", {2, 3, 8}}, {"no columns", {4, 0}}};
const std::vector<int> cuts = {-1, -1, 1, 0, -1, 1, -1};

struct Shape {
  std::int64_t rows, columns;
};

/// Number of the block of element e of a tensor, by counting blocks, one row of blocks after another.
std::int64_t counted_block(const std::vector<std::int64_t>& shape, std::int64_t e,
                           const Shape& block) {
  const std::int64_t columns = shape.empty() ? 1 : shape.back();
  std::int64_t numel = 1;
  for (const std::int64_t length : shape) numel *= length;
  const Shape of = {block.rows == 0 ? numel / columns : block.rows,
                    block.columns == 0 ? columns : block.columns};
  std::int64_t number = 0;
  for (std::int64_t top = 0; top * columns < numel; top += of.rows) {
    for (std::int64_t left = 0; left < columns; left += of.columns) {
      const std::int64_t row = e / columns, column = e % columns;
      if (row >= top && row < top + of.rows && column >= left && column < left + of.columns)
        return number;
      ++number;
    }
  }
  return -1;
}

/// Blocks before a tensor, and after the last one.
std::vector<std::int64_t> blocks_before(const Shape& block) {
  std::vector<std::int64_t> before = {0};
  for (const ParamSpec& param : params) {
    const std::int64_t numel = param.numel();
    before.push_back(before.back() +
                     (numel == 0 ? 0 : counted_block(param.shape, numel - 1, block) + 1));
  }
  return before;
}

}  // namespace

TEST_CASE(
    "tensor blocks: every element of every TP rank is in the block of the undistributed tensor") {
  const FlatLayout whole(params);
  for (const Shape block : {Shape{0, 0}, Shape{2, 5}, Shape{1, 4}, Shape{128, 128}, Shape{1, 32}}) {
    const std::vector<std::int64_t> before = blocks_before(block);
    for (const int tp : {1, 2, 4}) {
      for (int rank = 0; rank < tp; ++rank) {
        const TpModel mine = make_tp_model(params, cuts, tp, rank);
        const FlatLayout layout(mine.params);
        const TensorBlocks blocks(layout, mine.placement, matrices_of(whole), block.rows,
                                  block.columns);
        CHECK(blocks.num_blocks() == before.back());
        CHECK(blocks.num_tensors() == static_cast<std::int64_t>(params.size()));
        bool right = true;
        for (std::size_t t = 0; t < params.size(); ++t) {
          const auto tensor = static_cast<std::int64_t>(t);
          CHECK(blocks.first_block(tensor) == before[t]);
          CHECK(blocks.grid(tensor).num_blocks() == before[t + 1] - before[t]);
          for (std::int64_t e = 0; e < layout.tensors()[t].numel; ++e) {
            const std::int64_t at = mine.placement[t].global(e) - whole.tensors()[t].begin;
            right = right && blocks.block_of(tensor, e) ==
                                 before[t] + counted_block(params[t].shape, at, block);
          }
        }
        CHECK(right);
      }
    }
  }
}

TEST_CASE(
    "tensor blocks: runs are the elements of the pieces, and ranges of the undistributed "
    "tensor") {
  const FlatLayout whole(params);
  for (const int tp : {1, 2, 4}) {
    for (int rank = 0; rank < tp; ++rank) {
      const TpModel mine = make_tp_model(params, cuts, tp, rank);
      const FlatLayout layout(mine.params);
      const TensorBlocks blocks(layout, mine.placement, matrices_of(whole), 0, 0);
      const std::vector<Piece> pieces =
          layout.pieces({{3, 30}, {2048, 2100}, {2101, 4000}, {5120, 7168}});
      std::vector<std::pair<std::int64_t, std::int64_t>> wanted,
          got;  // index in the shard, in the tensor
      for (const Piece& piece : pieces) {
        const auto t = static_cast<std::size_t>(piece.tensor);
        for (std::int64_t e = 0; e < piece.numel; ++e) {
          wanted.emplace_back(
              piece.local_begin + e,
              mine.placement[t].global(piece.tensor_begin + e) - whole.tensors()[t].begin);
        }
      }
      const std::vector<BlockRun> runs = blocks.runs(pieces);
      bool apart = true;
      for (std::size_t i = 0; i < runs.size(); ++i) {
        CHECK(runs[i].numel >= 1);
        for (std::int64_t e = 0; e < runs[i].numel; ++e)
          got.emplace_back(runs[i].local_begin + e, runs[i].first + e);
        const bool side_by_side =
            i > 0 && runs[i].tensor == runs[i - 1].tensor &&
            runs[i].local_begin == runs[i - 1].local_begin + runs[i - 1].numel &&
            runs[i].first == runs[i - 1].first + runs[i - 1].numel;
        apart = apart && !side_by_side;
      }
      CHECK(got == wanted);
      CHECK(apart);
    }
  }
}

TEST_CASE("tensor blocks: without placement positions are unchanged") {
  const FlatLayout layout(params);
  const TensorBlocks blocks(layout, {}, {}, 1, 4);
  CHECK(blocks.grid(5) == BlockGrid{6, 8, 1, 4});
  CHECK(blocks.block_of(5, 13) == blocks.first_block(5) + 3);
  CHECK(blocks.runs(layout.pieces({{0, layout.padded_numel()}})).size() == 5);
}

TEST_CASE("tensor blocks: arguments that do not fit are rejected") {
  const FlatLayout layout(params);
  const auto refused = [&](std::vector<TensorPlacement> placement,
                           std::vector<TensorMatrix> matrices, const char* says) {
    CHECK_THROWS_WITH_AS(TensorBlocks(layout, std::move(placement), std::move(matrices), 1, 32),
                         doctest::Contains(says), Error);
  };
  std::vector<TensorMatrix> matrices = matrices_of(layout);
  matrices.pop_back();
  refused({}, matrices, "6 matrices");
  refused(std::vector<TensorPlacement>(3), {}, "3 placements");
  matrices = matrices_of(layout);
  const std::vector<TensorPlacement> placement = make_tp_model(params, cuts, 1, 0).placement;
  matrices[2].rows = 5;
  refused(placement, matrices, "tensor columns exceeds");
  matrices[2] = {matrices[2].begin + 1, 6, 24};
  refused(placement, matrices, "tensor columns exceeds");
  matrices[2] = {2048, -1, 24};
  refused(placement, matrices, "is a matrix of -1 by 24");
}

TEST_CASE("scaled parameters: the blocks of every recipe") {
  const FlatLayout layout({{"w", {300, 200}}, {"v", {129}}});
  StepSettings settings;
  settings.layout = &layout;
  const auto grid = [&](ScaleRecipe recipe, ScaleBlocks blocks) {
    settings.scaling = scaling_of(recipe);
    settings.scaling.blocks = blocks;
    return blocks_of(settings).grid(0);
  };
  CHECK(grid(ScaleRecipe::current, ScaleBlocks::row_128) == one_block(300, 200));
  CHECK(grid(ScaleRecipe::delayed, ScaleBlocks::square_128) == one_block(300, 200));
  CHECK(grid(ScaleRecipe::blockwise, ScaleBlocks::square_128) == BlockGrid{300, 200, 128, 128});
  CHECK(grid(ScaleRecipe::blockwise, ScaleBlocks::row_128) == BlockGrid{300, 200, 1, 128});
  CHECK(grid(ScaleRecipe::mxfp8, ScaleBlocks::square_128) == BlockGrid{300, 200, 1, 32});
  CHECK(blocks_of(settings).num_blocks() == 300 * 7 + 5);
  CHECK(scaling_of(ScaleRecipe::blockwise).power_of_two);
  CHECK_FALSE(scaling_of(ScaleRecipe::current).power_of_two);
}

TEST_CASE("scaled parameters: names as in files") {
  CHECK(names_of(ScaleRecipe{})[2] == "blockwise");
  CHECK(names_of(ScaleBlocks{})[1] == "1x128");
  CHECK(names_of(InitialMaster{})[1] == "dequantised");
  CHECK(names_of(QuantizedValue{})[1] == "through_bf16");
  CHECK(names_of(AmaxChoice{})[1] == "most_recent");
  CHECK(names_of(EmptyAmax{})[1] == "roll");
}

}  // namespace tensor_blocks_test
