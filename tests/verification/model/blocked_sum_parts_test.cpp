// Sums split between blocks: partial folds of ranges of blocks, and their fold.

#include <doctest.h>

#include <cstring>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/philox.hpp"
#include "verification/model/blocked_sum.hpp"
#include "verification/model/byte_gpt_layers.hpp"
#include "verification/model/matmul.hpp"

namespace blocked_sum_parts_test {

using namespace zeroproof;
using namespace zeroproof::workload;

namespace {

template <class Real>
bool same(Real a, Real b) {
  return std::memcmp(&a, &b, sizeof(Real)) == 0;
}

/// R18 over blocks [first, first + count) of n terms, from the text.
template <class Real>
Real literal_part(std::int64_t n, int first, int count, const std::vector<Real>& terms) {
  if (count > 1) {
    const Real left = literal_part(n, first, count / 2, terms);
    return left + literal_part(n, first + count / 2, count / 2, terms);
  }
  Real sum = 0;
  for (std::int64_t i = n * first / 8; i < n * (first + 1) / 8; ++i) sum += terms[i];
  return sum;
}

template <class Real>
std::vector<Real> numbers(std::int64_t count, std::uint32_t stream) {
  std::vector<Real> values(count);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = Philox(1, stream).bell(i) * (i % 3 == 0 ? Real{100} : Real{1});
  }
  return values;
}

template <class Real>
void check_matmul(InstructionSet set, std::int64_t rows, std::int64_t depth, std::int64_t columns) {
  std::vector<Real> left = numbers<Real>(rows * depth, 1);
  std::vector<Real> right = numbers<Real>(depth * columns, 2);
  const Matrix<Real> a(left.data(), rows, depth);
  const Matrix<Real> b(right.data(), depth, columns);
  int different = 0;
  for (const int count : {1, 2, 4, 8}) {
    for (int first = 0; first < sum_blocks; first += count) {
      const BlockRange range{depth, first, count};
      std::vector<Real> out(rows * columns, Real{-7});
      matmul(set, a.column_range(range.begin(), range.numel()),
             b.row_range(range.begin(), range.numel()), Matrix<Real>(out.data(), rows, columns),
             range);
      for (std::int64_t i = 0; i < rows * columns; ++i) {
        std::vector<Real> products;
        for (std::int64_t k = 0; k < depth; ++k)
          products.push_back(a(i / columns, k) * b(k, i % columns));
        if (!same(out[i], literal_part(depth, first, count, products))) ++different;
      }
    }
  }
  INFO(name(set), ": ", rows, "x", depth, "x", columns);
  CHECK(different == 0);
}

}  // namespace

TEST_CASE("BlockRange: parts divide the terms as the ranks of a group do") {
  for (const std::int64_t n : {0, 1, 5, 8, 13, 64}) {
    for (const int size : {1, 2, 4, 8}) {
      std::int64_t at = 0;
      for (int rank = 0; rank < size; ++rank) {
        const BlockRange part = BlockRange{n}.part(rank, size);
        CHECK(part.begin() == at);
        at = part.end();
        CHECK(part.numel() == part.local_begin(part.count));
        CHECK(part.begin() == n * (8 * rank / size) / 8);
      }
      CHECK(at == n);
    }
  }
  const BlockRange fourth = BlockRange{13}.part(1, 2).part(1, 2);  // of CP rank 1, TP rank 1
  CHECK(fourth.first == 6);
  CHECK(fourth.count == 2);
}

TEST_CASE(
    "BlockRange: a partial sum is the fold of its blocks, and partial sums fold to the whole") {
  for (const std::int64_t n : {0, 1, 5, 8, 13, 64, 1001}) {
    const std::vector<float> terms = numbers<float>(n, 3);
    for (const int size : {1, 2, 4, 8}) {
      float nodes[sum_blocks];
      for (int rank = 0; rank < size; ++rank) {
        const BlockRange part = BlockRange{n}.part(rank, size);
        nodes[rank] =
            partial_sum<float>(part, [&](std::int64_t i) { return terms[part.begin() + i]; });
        CHECK(same(nodes[rank], literal_part(n, part.first, part.count, terms)));
      }
      fused_fold(nodes, size);
      const float whole = blocked_sum<float>(n, [&](std::int64_t i) { return terms[i]; });
      CHECK(same(nodes[0], whole));
    }
  }
  CHECK(same(partial_sum<float>({3, 0, 2}, [](std::int64_t) { return -0.0F; }), 0.0F));
}

TEST_CASE(
    "matmul: some blocks of a depth have the bits of literal loops for every instruction set") {
  struct Extents {
    std::int64_t rows, depth, columns;
  };
  constexpr Extents extents[] = {{1, 1, 1}, {5, 13, 17}, {9, 37, 15}, {4, 3, 33}, {6, 0, 2}};
  for (const InstructionSet set : usable_instruction_sets()) {
    for (const Extents& e : extents) {
      check_matmul<float>(set, e.rows, e.depth, e.columns);
      check_matmul<double>(set, e.rows, e.depth, e.columns);
    }
  }
}

TEST_CASE("matmul: factors with another depth than the blocks are rejected") {
  std::vector<float> data(64);
  const Matrix<float> a(data.data(), 2, 3);
  const Matrix<float> b(data.data() + 16, 3, 2);
  const Matrix<float> c(data.data() + 32, 2, 2);
  CHECK_NOTHROW(matmul(InstructionSet::baseline, a, b, c, BlockRange{6, 4, 4}));
  CHECK_THROWS_WITH_AS(matmul(InstructionSet::baseline, a, b, c, BlockRange{6, 4, 2}),
                       "factors have depth 3, the blocks have 1 terms (elements would be added "
                       "to the wrong block);"
                       " pass only the columns and rows of the range",
                       Error);
}

TEST_CASE("column sums: some blocks of the rows follow R18") {
  constexpr std::int64_t total = 13;
  constexpr std::int64_t columns = 67;
  std::vector<float> all = numbers<float>(total * columns, 4);
  for (const int count : {1, 2, 4, 8}) {
    for (int first = 0; first < sum_blocks; first += count) {
      const BlockRange range{total, first, count};
      std::vector<float> sums(columns, -7.0F);
      column_sums<float>(
          range, Matrix<float>(all.data(), total, columns).row_range(range.begin(), range.numel()),
          sums.data());
      for (std::int64_t j = 0; j < columns; ++j) {
        std::vector<float> column;
        for (std::int64_t i = 0; i < total; ++i) column.push_back(all[i * columns + j]);
        CHECK(same(sums[j], literal_part(total, first, count, column)));
      }
    }
  }
}

}  // namespace blocked_sum_parts_test
