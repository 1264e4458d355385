#pragma once
// The tensors that the rule muon updates as matrices, and the parts of a matrix that are orthogonalised one by one
// (R28).

#include <cstdint>
#include <string>
#include <vector>

#include "common/layout/flat_layout.hpp"

namespace zeroproof {

/// One split of a configuration: matrices whose rows, or columns, belong to parts in turn.
struct MatrixSplitRule {
  std::string name;
  std::vector<std::string> match;  ///< globs (* and ?) on tensor names; any of them
  /// Rows, or columns, of each part in one period: {64, 64, 64} of 192 rows are query, key and value one after
  /// another, of 384 rows the same for two groups of heads.
  std::vector<std::int64_t> rows, columns;  ///< one of them is empty
};

/// How the rule muon treats a tensor.
struct MatrixTensor {
  bool is_matrix = false;            ///< false: as adamw
  bool by_columns = false;           ///< parts are columns, not rows
  std::vector<std::int64_t> widths;  ///< of the parts in one period; empty: the matrix is one part

  /// Parts of the matrix: at least one.
  std::int64_t num_parts() const {
    return widths.empty() ? 1 : static_cast<std::int64_t>(widths.size());
  }
};

/// Every tensor of an undistributed model: one of two dimensions is a matrix, unless a glob of `adamw` matches its
/// name. A matrix is split by the first rule that matches it.
///
/// Errors   ErrorCode::config: a glob or rule that matches no matrix; a rule without a name or with the name of
///          another one, without match, with rows and columns or neither, with a width below 1; widths that do not
///          add up to a divisor of the extent.
std::vector<MatrixTensor> make_matrix_tensors(const std::vector<std::string>& adamw,
                                              const std::vector<MatrixSplitRule>& splits,
                                              const FlatLayout& undistributed);

}  // namespace zeroproof
