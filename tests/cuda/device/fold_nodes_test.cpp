// Sums of gradient nodes over pieces in device memory (R11), against the tree computed here node by
// node.

#include <doctest.h>

#include "tests/cuda/device/fold_support.hpp"
#include "tests/cuda/expect_error.hpp"
#include "tests/cuda/optimizer/device_layouts.hpp"

namespace fold_nodes_test {

using namespace zeroproof;
using namespace zeroproof::cuda::device;
using namespace zeroproof::device_test;
using cuda::host::FoldPlan;
using tests::expect_error;

TEST_CASE("device fold: trees over any number of leaves, formats and alignments") {
  if (!usable()) return;
  for (const std::int64_t count : {1, 2, 3, 4, 5, 7, 8}) {
    for (const auto& dtypes : formats) {
      for (const Where& where : everywhere) {
        CAPTURE(count);
        check_tree(odd_numels(), leaves(count), dtypes, where);
      }
    }
  }
}

TEST_CASE("device fold: many micro-batch gradients") {
  if (!usable()) return;
  for (const std::int64_t count : {9, 15, 16, 24, 40, 127, 130}) {
    for (const auto& dtypes : formats) {
      CAPTURE(count);
      check_tree({1, 5, 70, 4099}, leaves(count), dtypes,
                 everywhere[static_cast<std::size_t>(count) % 5]);
    }
  }
  check_tree({3, 70}, leaves(1024), {DType::bf16}, aligned);
  check_tree({3, 70}, leaves(1023), formats[3], everywhere[3]);
}

TEST_CASE("device fold: nodes with micro-batch gradients") {
  if (!usable()) return;
  const DType node = DType::fp32, leaf = DType::bf16;
  const std::vector<std::pair<std::vector<TreeNode>, std::vector<DType>>> cases = {
      {{{3, 0}, {0, 8}, {0, 9}, {0, 10}, {0, 11}, {0, 12}, {0, 13}, {0, 14}, {0, 15}},
       {node, leaf, leaf, leaf, leaf, leaf, leaf, leaf, leaf}},
      {{{2, 0}, {1, 2}, {0, 6}}, {node, node, leaf}},
      {{{0, 0}, {0, 1}, {1, 1}, {2, 1}, {3, 1}, {0, 16}}, {leaf, leaf, node, node, node, leaf}},
      {{{1, 0}, {0, 2}, {0, 3}, {1, 2}, {0, 6}, {0, 7}, {0, 8}},
       {node, leaf, leaf, node, leaf, leaf, leaf}},
  };
  for (const auto& [nodes, dtypes] : cases) {
    for (const Where& where : everywhere)
      check_tree({1, 2, 3, 4, 5, 6, 70, 4099}, nodes, dtypes, where);
  }
}

TEST_CASE("device fold: nodes that cannot be combined are added from last to first") {
  if (!usable()) return;
  std::vector<TreeNode> alone, pairs;
  for (std::int64_t j = 0; j < 40; ++j) {
    alone.push_back({0, 2 * j + 1});
    pairs.push_back({0, j / 2 * 4 + j % 2});
  }
  const auto last_to_first = [](Values values) {
    while (values.size() > 1) {
      const float x = values.back();
      values.pop_back();
      values.back() = values.back() + x;
    }
    return values.front();
  };
  for (const auto& dtypes : formats) {
    check_fold(pieces_of(odd_numels()), FoldPlan(alone), dtypes, aligned, last_to_first);
    check_fold(pieces_of({1, 70, 4099}), FoldPlan(pairs), dtypes, aligned,
               [&](const Values& values) {
                 Values sums;
                 for (std::size_t k = 0; k < values.size(); k += 2)
                   sums.push_back(values[k] + values[k + 1]);
                 return last_to_first(sums);
               });
  }
}

TEST_CASE("device fold: one after another") {
  if (!usable()) return;
  for (const std::size_t count : {1, 2, 3, 8, 9, 40, 200}) {
    for (const auto& dtypes : formats) {
      CAPTURE(count);
      check_fold(pieces_of({1, 7, 70, 4099}), FoldPlan::one_after_another(count), dtypes,
                 everywhere[count % 5], [](const Values& values) {
                   float sum = values.front();
                   for (std::size_t k = 1; k < values.size(); ++k) sum = sum + values[k];
                   return sum;
                 });
    }
  }
}

TEST_CASE("device fold: the sum may be one of its operands") {
  if (!usable()) return;
  for (const std::int64_t count : {1, 2, 3, 8, 17}) {
    for (const int which : {0, static_cast<int>(count) - 1}) {
      for (const bool packed : {true, false}) {
        check_tree(odd_numels(), leaves(count), {DType::fp32}, {{{packed, 2}}, {}, which});
      }
    }
    check_tree(odd_numels(), leaves(count), formats[3], {{{true, 0}, {false, 1}}, {}, 0});
  }
}

TEST_CASE("device fold: one large piece, many small ones, and both") {
  if (!usable()) return;
  std::vector<std::int64_t> many;
  for (std::int64_t j = 0; j < 700; ++j)
    many.push_back(1 + hash(static_cast<std::uint64_t>(j), 5) % 90);
  std::vector<std::int64_t> both = many;
  both[600] = 200003;
  const std::vector<std::int64_t> one = {300001};
  for (const std::int64_t count : {2, 3}) {
    for (const auto& numels : {one, many, both}) {
      check_tree(numels, leaves(count), {DType::bf16}, aligned);
      check_tree(numels, leaves(count), {DType::bf16, DType::fp32}, everywhere[3]);
    }
  }
}

TEST_CASE("device fold: every fp16 and every bf16, widened") {
  if (!usable()) return;
  const std::vector<Piece> pieces = pieces_of({65536});
  for (const DType dtype : {DType::fp16, DType::bf16}) {
    const DevicePieceList list(pieces);
    PlacedBuffer leaf(pieces, 2, {}), sum(pieces, 4, {});
    for (std::uint32_t bits = 0; bits < 65536; ++bits) leaf.set(pieces[0], bits, bits);
    leaf.upload();
    sum.upload();
    const PlacedValues operand = leaf.values(dtype);
    enqueue_fold(list.get(), FoldPlan(leaves(1)), {&operand, 1}, sum.values(DType::fp32));
    sum.download();
    std::int64_t wrong = 0;
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
      if (!same(std::bit_cast<float>(sum.get(pieces[0], bits)), widened_by_hand(dtype, bits)))
        ++wrong;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("device fold: one launch, no allocation, and no launch without pieces") {
  if (!usable()) return;
  const std::vector<Piece> pieces = pieces_of({100});
  const DevicePieceList list(pieces), none({});
  PlacedBuffer values(pieces, 4, {}), sum(pieces, 4, {});
  values.upload();
  sum.upload();
  const std::vector<PlacedValues> operands(200, values.values(DType::fp32));
  const auto fold = [&](const DevicePieceList& over, std::int64_t count) {
    enqueue_fold(over.get(), FoldPlan(leaves(count)),
                 {operands.data(), static_cast<std::size_t>(count)}, sum.values(DType::fp32));
  };
  for (const std::int64_t count : {1, 8, 9, 200}) check_calls({1}, [&] { fold(list, count); });
  check_calls({}, [&] { fold(none, 8); });
  wait_for_stream();
}

TEST_CASE("device fold: invalid operands are refused") {
  if (!usable()) return;
  const DevicePieces pieces;
  const PlacedValues fp32{nullptr, DType::fp32, 0, true};
  const auto fold = [&](std::size_t nodes, const std::vector<PlacedValues>& operands,
                        const PlacedValues& sum) {
    expect_error(ErrorCode::invalid_argument,
                 [&] { enqueue_fold(pieces, FoldPlan::one_after_another(nodes), operands, sum); });
  };
  fold(3, {fp32, fp32}, fp32);
  fold(1025, std::vector<PlacedValues>(1025, fp32), fp32);
  fold(1, {{nullptr, DType::e4m3, 0, true}}, fp32);
  fold(1, {fp32}, {nullptr, DType::bf16, 0, true});
}

}  // namespace fold_nodes_test
