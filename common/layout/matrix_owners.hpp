#pragma once
// The rank that orthogonalises a matrix (R28), of the ranks that share a state.

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/base/span.hpp"

namespace zeroproof {

/// every: each rank computes the whole matrices of which it owns an element. round_robin: the i-th matrix belongs to
/// rank i mod W. balanced: longest processing time first, by the cost of the products.
enum class MatrixOwners : std::uint8_t { every, round_robin, balanced };

/// How TP ranks orthogonalise a matrix that they split. duplicated: each of them has the whole matrix. distributed: each
/// has some blocks of the longer extent (R27), and they exchange partial folds of X X^T.
enum class MatrixTensorParallel : std::uint8_t { duplicated, distributed };

/// Rows and columns of an undistributed matrix.
struct MatrixShape {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

/// Multiplications of one Newton-Schulz iteration, up to a factor: the longer extent times the square of the shorter.
double newton_schulz_cost(const MatrixShape& shape);

/// Owner of each matrix, [num_matrices]. balanced: in the order of falling cost, the earlier matrix first at equal
/// cost, each goes to the rank with the least cost so far, the lowest of several.
///
/// Errors   invalid_argument for MatrixOwners::every, which has no owners, or world_size < 1.
std::vector<int> owners_of_matrices(MatrixOwners owners, Span<const MatrixShape> matrices,
                                    int world_size);

/// Names in configuration files and reports, in the order of the enumerators.
Span<const std::string_view> names_of(MatrixOwners);
Span<const std::string_view> names_of(MatrixTensorParallel);

}  // namespace zeroproof
