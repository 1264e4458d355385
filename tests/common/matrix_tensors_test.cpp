#include "common/step/matrix_tensors.hpp"

#include <doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/complaint.hpp"

namespace matrix_tensors_test {

using namespace zeroproof;
using namespace zeroproof_test;

namespace {

using Names = std::vector<std::string>;
using Widths = std::vector<std::int64_t>;

/// A block of a transformer, with tensors of 0, 1 and 3 dimensions, and a matrix without elements.
FlatLayout model() {
  return FlatLayout({{"embedding.weight", {256, 15}},
                     {"block0.qkv.weight", {48, 15}},
                     {"block0.qkv.bias", {48}},
                     {"block0.gate.weight", {15, 60}},
                     {"conv.weight", {4, 3, 2}},
                     {"temperature", {}},
                     {"unused", {0, 5}},
                     {"head.weight", {256, 15}}});
}

std::vector<MatrixTensor> tensors_of(const Names& adamw,
                                     const std::vector<MatrixSplitRule>& splits = {}) {
  return make_matrix_tensors(adamw, splits, model());
}

/// Indices of the tensors that are matrices.
std::vector<int> matrices_of(const Names& adamw) {
  std::vector<int> indices;
  const std::vector<MatrixTensor> tensors = tensors_of(adamw);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].is_matrix) indices.push_back(static_cast<int>(i));
    CHECK(tensors[i].widths.empty());
    CHECK(tensors[i].num_parts() == 1);
  }
  return indices;
}

MatrixSplitRule rows(const std::string& name, const Names& match, const Widths& widths) {
  return {name, match, widths, {}};
}
MatrixSplitRule columns(const std::string& name, const Names& match, const Widths& widths) {
  return {name, match, {}, widths};
}

void refused(const std::vector<std::string>& parts, const Names& adamw,
             const std::vector<MatrixSplitRule>& splits) {
  const std::string text = complaint([&] { tensors_of(adamw, splits); });
  for (const std::string& part : parts)
    CHECK_MESSAGE(has(text, part), "refused with: ", text, "; expected: ", part);
}

}  // namespace

TEST_CASE("matrix tensors: tensors of exactly two dimensions, less those of adamw") {
  CHECK(matrices_of({}) == std::vector<int>{0, 1, 3, 6, 7});
  CHECK(matrices_of({"embedding*", "head.*"}) == std::vector<int>{1, 3, 6});
  CHECK(matrices_of({"*.weight"}) == std::vector<int>{6});
  CHECK(matrices_of({"*"}).empty());
  CHECK(matrices_of({"head.*", "head.weight", "*"}).empty());  // several may match a tensor
  CHECK(make_matrix_tensors({}, {}, FlatLayout({{"v", {3}}})).size() == 1);
}

TEST_CASE("matrix tensors: the first split that matches a matrix applies") {
  const std::vector<MatrixTensor> tensors =
      tensors_of({"head.*"}, {rows("qkv", {"*.qkv.*"}, {8, 4, 4}),
                              columns("gate", {"*gate*"}, {30}), columns("all", {"*"}, {1, 4})});
  const auto is = [&](std::size_t i, bool by_columns, const Widths& widths) {
    CHECK(tensors[i].is_matrix);
    CHECK(tensors[i].by_columns == by_columns);
    CHECK(tensors[i].widths == widths);
    CHECK(tensors[i].num_parts() == static_cast<std::int64_t>(widths.size()));
  };
  is(0, true, {1, 4});      // 15 columns
  is(1, false, {8, 4, 4});  // 48 rows
  is(3, true, {30});        // 60 columns, one part of all of them
  for (const std::size_t i : {2U, 4U, 5U, 7U}) {
    CHECK(!tensors[i].is_matrix);
    CHECK(tensors[i].widths.empty());
  }
}

TEST_CASE("matrix tensors: a matrix without rows has parts of any width") {
  const std::vector<MatrixTensor> tensors = tensors_of({}, {rows("empty", {"unused"}, {7, 3})});
  CHECK(tensors[6].num_parts() == 2);
}

TEST_CASE("matrix tensors: globs and splits without effect are rejected") {
  refused({"'heads' in muon.adamw matches no tensor of two dimensions"}, {"head.*", "heads"}, {});
  refused({"'*bias' in muon.adamw matches no tensor of two dimensions"}, {"*bias"}, {});
  refused({"matrix split 'a' matches no matrix"}, {}, {rows("a", {"nowhere"}, {1})});
  refused({"muon.adamw leaves no matrix", "matrix split 'a' would have no effect"}, {"*"},
          {rows("a", {"*"}, {1})});
  refused({"matrix split 'a' matches no matrix"}, {}, {rows("a", {"*bias", "conv*"}, {1})});
  // Its matrices are those of adamw, or of an earlier split.
  refused({"matrix split 'a' matches no matrix"}, {"head*"}, {rows("a", {"head*"}, {1})});
  refused({"matrix split 'b' matches no matrix"}, {},
          {rows("a", {"*qkv*"}, {1}), rows("b", {"*qkv.weight"}, {2})});
}

TEST_CASE("matrix tensors: splits that are not complete are rejected") {
  refused({"matrix split 1 has no name"}, {}, {rows("", {"*"}, {1})});
  refused({"two matrix splits have the name 'a'"}, {},
          {rows("a", {"*qkv*"}, {1}), columns("a", {"*gate*"}, {1})});
  refused({"matrix split 'a' has no match"}, {}, {rows("a", {}, {1})});
  refused({"matrix split 'a' has neither rows nor columns"}, {}, {rows("a", {"*qkv*"}, {})});
  refused({"matrix split 'a' has rows and columns"}, {}, {{"a", {"*qkv*"}, {1}, {1}}});
  for (const std::int64_t width : {std::int64_t{0}, std::int64_t{-3}}) {
    const std::string problem = "matrix split 'a' has a part of " + std::to_string(width);
    refused({problem}, {}, {rows("a", {"*qkv*"}, {3, width})});
    refused({problem}, {}, {columns("a", {"*qkv*"}, {width, 3})});
  }
}

TEST_CASE("matrix tensors: widths whose sum does not divide the extent are rejected") {
  refused({"'a' has a period of 5", "block0.qkv.weight has 48 rows"}, {},
          {rows("a", {"*qkv*"}, {2, 3})});
  refused({"'a' has a period of 96", "has 48 rows"}, {}, {rows("a", {"*qkv*"}, {48, 48})});
  refused({"'a' has a period of 16", "block0.qkv.weight has 15 columns"}, {},
          {columns("a", {"*qkv*"}, {16})});
  // Every matrix that matches must be covered.
  refused({"'a' has a period of 24", "has 15 rows"}, {}, {rows("a", {"block0*"}, {24})});
  // A sum that 64 bits do not hold: 2^64, and 2^63.
  constexpr std::int64_t large = std::int64_t{1} << 62;
  refused({"has 48 rows"}, {}, {rows("a", {"*qkv*"}, {large, large, large, large})});
  refused({"has 48 rows"}, {}, {rows("a", {"*qkv*"}, {large, large})});
}

}  // namespace matrix_tensors_test
