#include "common/layout/matrix_owners.hpp"

#include <doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/philox.hpp"

namespace matrix_owners_test {

using namespace zeroproof;

namespace {

using enum MatrixOwners;
using Shapes = std::vector<MatrixShape>;

/// Shapes of 0 to `most` rows and columns.
Shapes random_shapes(std::uint64_t seed, std::size_t count, std::uint64_t most) {
  const Philox philox(seed);
  Shapes shapes;
  for (std::uint64_t i = 0; i < count; ++i)
    shapes.push_back({static_cast<std::int64_t>(philox.below(2 * i, most + 1)),
                      static_cast<std::int64_t>(philox.below(2 * i + 1, most + 1))});
  return shapes;
}

std::int64_t cost(const MatrixShape& shape) {
  return shape.rows < shape.columns ? shape.columns * shape.rows * shape.rows
                                    : shape.rows * shape.columns * shape.columns;
}

/// `balanced` as its definition: of the matrices that are left, the first of the largest cost.
std::vector<int> balanced_by_search(const Shapes& shapes, int world_size) {
  std::vector<int> owner(shapes.size(), -1);
  std::vector<std::int64_t> load(static_cast<std::size_t>(world_size));
  for (std::size_t given = 0; given < shapes.size(); ++given) {
    std::size_t next = shapes.size();
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const bool is_free = owner[i] < 0;
      if (is_free && (next == shapes.size() || cost(shapes[i]) > cost(shapes[next]))) next = i;
    }
    std::size_t rank = 0;
    for (std::size_t r = 1; r < load.size(); ++r) {
      if (load[r] < load[rank]) rank = r;
    }
    owner[next] = static_cast<int>(rank);
    load[rank] += cost(shapes[next]);
  }
  return owner;
}

std::int64_t largest_load(const Shapes& shapes, const std::vector<int>& owners, int world_size) {
  std::vector<std::int64_t> load(static_cast<std::size_t>(world_size));
  for (std::size_t i = 0; i < shapes.size(); ++i) load[owners[i]] += cost(shapes[i]);
  return *std::ranges::max_element(load);
}

/// The least possible one: all world_size ^ shapes assignments are tried.
std::int64_t least_load(const Shapes& shapes, int world_size) {
  std::vector<int> owners(shapes.size());
  std::int64_t least = largest_load(shapes, owners, world_size);
  while (true) {
    std::size_t i = 0;
    while (i < owners.size() && ++owners[i] == world_size) owners[i++] = 0;
    if (i == owners.size()) return least;
    least = std::min(least, largest_load(shapes, owners, world_size));
  }
}

}  // namespace

TEST_CASE("matrix owners: the cost is the longer extent times the square of the shorter") {
  CHECK(newton_schulz_cost({3, 5}) == 45);
  CHECK(newton_schulz_cost({5, 3}) == 45);
  CHECK(newton_schulz_cost({4, 4}) == 64);
  CHECK(newton_schulz_cost({0, 7}) == 0);
  CHECK(newton_schulz_cost({1 << 20, 1 << 20}) == 0x1p60);
}

TEST_CASE("matrix owners: round robin goes by the order of the matrices") {
  const Shapes shapes(5, {2, 3});
  CHECK(owners_of_matrices(round_robin, shapes, 3) == std::vector<int>{0, 1, 2, 0, 1});
  CHECK(owners_of_matrices(round_robin, shapes, 1) == std::vector<int>(5, 0));
  CHECK(owners_of_matrices(round_robin, shapes, 9) == std::vector<int>{0, 1, 2, 3, 4});
}

TEST_CASE("matrix owners: balanced by hand") {
  // Costs 8, 27, 1, 27, 8: ranks get 27 | 27, then 8 | 8, then 1 on the first.
  const Shapes shapes = {{2, 2}, {3, 3}, {1, 1}, {3, 3}, {2, 2}};
  CHECK(owners_of_matrices(balanced, shapes, 2) == std::vector<int>{0, 0, 0, 1, 1});
  // On three ranks the third has both 8, and the 1.
  CHECK(owners_of_matrices(balanced, shapes, 3) == std::vector<int>{2, 0, 2, 1, 2});
  CHECK(owners_of_matrices(balanced, Shapes(4, {2, 2}), 4) == std::vector<int>{0, 1, 2, 3});
  // Matrices without elements cost nothing: all of them are the first rank's.
  CHECK(owners_of_matrices(balanced, Shapes(3, {0, 9}), 2) == std::vector<int>(3, 0));
}

TEST_CASE("matrix owners: balanced equals a search for the largest matrix and the least load") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Shapes shapes = random_shapes(seed, seed % 23, seed % 2 == 0 ? 3 : 500);
    for (const int world_size : {1, 2, 3, 5, 8}) {
      CHECK(owners_of_matrices(balanced, shapes, world_size) ==
            balanced_by_search(shapes, world_size));
    }
  }
}

TEST_CASE("matrix owners: balanced is within 4/3 of the least possible load") {
  // Graham 1969: 4/3 - 1 / (3 m) on m ranks.
  bool is_optimal = true;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Shapes shapes = random_shapes(100 + seed, 2 + seed % 6, 9);
    for (const int world_size : {2, 3}) {
      const std::int64_t load =
          largest_load(shapes, owners_of_matrices(balanced, shapes, world_size), world_size);
      const std::int64_t least = least_load(shapes, world_size);
      CHECK(3 * world_size * load <= (4 * world_size - 1) * least);
      is_optimal = is_optimal && load == least;
    }
  }
  CHECK(!is_optimal);  // the bound was needed
}

TEST_CASE("matrix owners: without matrices there are no owners") {
  for (const MatrixOwners owners : {round_robin, balanced})
    CHECK(owners_of_matrices(owners, Shapes{}, 3).empty());
}

TEST_CASE("matrix owners: no owner rule, or no rank, is rejected") {
  const Shapes shapes(2, {2, 3});
  const auto problem_of = [&](MatrixOwners owners, int world_size) -> std::string {
    try {
      owners_of_matrices(owners, shapes, world_size);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::invalid_argument);
      return error.what();
    }
    return "";
  };
  const auto says = [&](MatrixOwners owners, int world_size, const std::string& part) {
    const std::string text = problem_of(owners, world_size);
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
  };
  says(every, 2, "matrices are given to one of 2 ranks each");
  for (const MatrixOwners owners : {round_robin, balanced}) {
    says(owners, 0, "matrices are given to one of 0 ranks each");
    says(owners, -1, "matrices are given to one of -1 ranks each");
    CHECK(problem_of(owners, 1).empty());
  }
}

TEST_CASE("matrix owners: names in the order of the enumerators") {
  const Span<const std::string_view> names = names_of(every);
  CHECK(names.size() == 3);
  CHECK(names[static_cast<std::size_t>(every)] == "every");
  CHECK(names[static_cast<std::size_t>(round_robin)] == "round_robin");
  CHECK(names[static_cast<std::size_t>(balanced)] == "balanced");
}

}  // namespace matrix_owners_test
