#include "common/layout/matrix_owners.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>

#include "common/base/error.hpp"

namespace zeroproof {

double newton_schulz_cost(const MatrixShape& shape) {
  const auto longer = static_cast<double>(std::max(shape.rows, shape.columns));
  const auto shorter = static_cast<double>(std::min(shape.rows, shape.columns));
  return longer * shorter * shorter;
}

std::vector<int> owners_of_matrices(MatrixOwners owners, Span<const MatrixShape> matrices,
                                    int world_size) {
  ZP_CHECK(owners != MatrixOwners::every && world_size >= 1, ErrorCode::invalid_argument,
           "matrices are given to one of " + std::to_string(world_size) + " ranks each",
           "every rank computes its own, or there is no rank", "use round_robin or balanced");
  std::vector<int> of_matrix(matrices.size());
  if (owners == MatrixOwners::round_robin) {
    for (std::size_t i = 0; i < matrices.size(); ++i)
      of_matrix[i] = static_cast<int>(i % static_cast<std::size_t>(world_size));
    return of_matrix;
  }
  std::vector<std::size_t> order(matrices.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](std::size_t i) { return newton_schulz_cost(matrices[i]); });
  std::vector<double> load(static_cast<std::size_t>(world_size));
  for (const std::size_t i : order) {
    const auto rank = std::ranges::min_element(load);  // the first of several
    of_matrix[i] = static_cast<int>(rank - load.begin());
    *rank += newton_schulz_cost(matrices[i]);
  }
  return of_matrix;
}

Span<const std::string_view> names_of(MatrixOwners) {
  static constexpr std::array<std::string_view, 3> names = {"every", "round_robin", "balanced"};
  return names;
}

Span<const std::string_view> names_of(MatrixTensorParallel) {
  static constexpr std::array<std::string_view, 2> names = {"duplicated", "distributed"};
  return names;
}

}  // namespace zeroproof
