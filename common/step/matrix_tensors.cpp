#include "common/step/matrix_tensors.hpp"

#include <algorithm>

#include "common/base/error.hpp"
#include "common/step/tensor_groups.hpp"

namespace zeroproof {
namespace {

/// The rule as validate_group reads it, which is left to check the names.
struct NamedMatch {
  std::string name;
  std::vector<std::string> match;
  bool vectors = true;
};

/// Their sum, or a larger number than any extent.
std::int64_t period_of(const std::vector<std::int64_t>& widths) {
  constexpr std::int64_t too_large = std::int64_t{1} << 61;
  std::int64_t period = 0;
  for (const std::int64_t width : widths)
    period = std::min(period + std::min(width, too_large), too_large);
  return period;
}

void check_splits(const std::vector<MatrixSplitRule>& splits) {
  std::vector<NamedMatch> names;
  for (const MatrixSplitRule& split : splits) names.push_back({split.name, split.match});
  for (std::size_t i = 0; i < splits.size(); ++i) {
    validate_group(names, i, "matrix split");
    const MatrixSplitRule& split = splits[i];
    ZP_CHECK(!split.match.empty(), ErrorCode::config,
             "matrix split '" + split.name + "' has no match", "it matches no matrix",
             "list names of matrices in match");
    ZP_CHECK(split.rows.empty() != split.columns.empty(), ErrorCode::config,
             "matrix split '" + split.name + "' has " +
                 (split.rows.empty() ? "neither rows nor columns" : "rows and columns"),
             "its parts are one or the other", "list the widths of the parts in one of them");
    for (const std::int64_t width : split.rows.empty() ? split.columns : split.rows) {
      ZP_CHECK(width >= 1, ErrorCode::config,
               "matrix split '" + split.name + "' has a part of " + std::to_string(width),
               "a part has rows and columns", "use widths of 1 or more");
    }
  }
}

MatrixTensor split_by(const MatrixSplitRule& split, const TensorSlot& tensor) {
  const bool by_columns = split.rows.empty();
  MatrixTensor matrix{true, by_columns, by_columns ? split.columns : split.rows};
  const std::int64_t extent = tensor.shape[by_columns ? 1 : 0];
  const std::int64_t period = period_of(matrix.widths);
  ZP_CHECK(extent % period == 0, ErrorCode::config,
           "matrix split '" + split.name + "' has a period of " + std::to_string(period) + " and " +
               tensor.name + " has " + std::to_string(extent) + (by_columns ? " columns" : " rows"),
           "some of them would belong to no part", "use widths whose sum divides that number");
  return matrix;
}

}  // namespace

std::vector<MatrixTensor> make_matrix_tensors(const std::vector<std::string>& adamw,
                                              const std::vector<MatrixSplitRule>& splits,
                                              const FlatLayout& undistributed) {
  check_splits(splits);
  std::vector<bool> adamw_matched(adamw.size());
  std::vector<bool> split_matched(splits.size());
  std::vector<MatrixTensor> matrices;
  for (const TensorSlot& tensor : undistributed.tensors()) {
    MatrixTensor& matrix = matrices.emplace_back();
    if (tensor.shape.size() != 2) continue;
    matrix.is_matrix = true;
    for (std::size_t i = 0; i < adamw.size(); ++i) {
      if (!matches_tensor({adamw[i]}, false, tensor)) continue;
      adamw_matched[i] = true;
      matrix.is_matrix = false;
    }
    if (!matrix.is_matrix) continue;
    const auto split = std::ranges::find_if(splits, [&](const MatrixSplitRule& rule) {
      return matches_tensor(rule.match, false, tensor);
    });
    if (split == splits.end()) continue;
    split_matched[static_cast<std::size_t>(split - splits.begin())] = true;
    matrix = split_by(*split, tensor);
  }
  for (std::size_t i = 0; i < adamw.size(); ++i) {
    ZP_CHECK(adamw_matched[i], ErrorCode::config,
             "'" + adamw[i] + "' in muon.adamw matches no tensor of two dimensions",
             "it would have no effect", "compare it with the names of the model's tensors");
  }
  ZP_CHECK(splits.empty() || std::ranges::any_of(matrices, &MatrixTensor::is_matrix),
           ErrorCode::config, "muon.adamw leaves no matrix to the rule muon",
           "matrix split '" + splits.front().name + "' would have no effect",
           "shorten muon.adamw, or use a recipe without matrix splits");
  for (std::size_t i = 0; i < splits.size(); ++i) {
    ZP_CHECK(split_matched[i], ErrorCode::config,
             "matrix split '" + splits[i].name + "' matches no matrix", "it would have no effect",
             "compare match with the names of the model's tensors, muon.adamw and earlier splits");
  }
  return matrices;
}

}  // namespace zeroproof
