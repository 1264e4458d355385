#pragma once

#include <cmath>
#include <limits>

#include "common/contracts/cross_entropy.hpp"
#include "cuda/host/layers/layer_checks.hpp"
#include "cuda/host/simd/layer_kernels.hpp"

namespace zeroproof::cuda::host {

/// The columns of the part. Throws invalid_argument unless they are blocks of R18 owned by one of
/// 1, 2, 4 or 8 ranks.
inline VocabularyColumns check_part(const char* op, const VocabularyPart& part) {
  const bool count_ok = part.count == 1 || part.count == 2 || part.count == 4 || part.count == 8;
  const bool ok = count_ok && part.first >= 0 && part.first % part.count == 0 &&
                  part.first + part.count <= 8 && part.size >= 1 &&
                  part.size <= std::numeric_limits<std::int64_t>::max() / 8;
  ZP_CHECK(ok, ErrorCode::invalid_argument,
           std::string(op) + ": blocks " + std::to_string(part.first) + " to below " +
               std::to_string(part.first) + " + " + std::to_string(part.count) + " of " +
               std::to_string(part.size) + " columns are not a part",
           "sums of parts are folded by the tree over 8 blocks",
           "use 1, 2, 4 or 8 blocks, the first one a multiple of that, and at least one column");
  return {part.size, part.first, part.count, part.begin(), part.end()};
}

/// The parameters of the loss (fp64, rounded as the contract says). Throws invalid_argument if
/// options are out of range.
inline LossRule loss_rule(const char* op, const CrossEntropyOptions& options, std::int64_t size) {
  const double smoothing = options.label_smoothing;
  require_at_least_one(op, "size", size);
  ZP_CHECK(smoothing >= 0 && smoothing < 1, ErrorCode::invalid_argument,
           std::string(op) + ": label_smoothing is " + std::to_string(smoothing),
           "it is the fraction of the target shared by the other columns", "use a value in [0, 1)");
  ZP_CHECK(smoothing == 0 || size >= 2, ErrorCode::invalid_argument,
           std::string(op) + ": label_smoothing is above 0 with one column",
           "smoothing needs another column", "use 0");
  ZP_CHECK(std::isfinite(options.z_weight) && options.z_weight >= 0, ErrorCode::invalid_argument,
           std::string(op) + ": z_weight is " + std::to_string(options.z_weight),
           "it is the weight of a squared logarithm in the loss", "use a finite value >= 0");
  LossRule rule{.size = size, .z_weight = options.z_weight};
  if (smoothing > 0) {
    const double columns = static_cast<double>(size);
    const double all = smoothing * columns;
    const double c = all / (columns - 1.0);
    rule.smoothed = true;
    rule.smooth = static_cast<float>(c);
    rule.keep = static_cast<float>(1.0 - c);
    rule.spread = static_cast<float>(c / columns);
  }
  return rule;
}

/// The columns; logits are [rows, columns].
inline VocabularyColumns check_part_of(const char* op, const VocabularyPart& part,
                                       std::int64_t rows, std::initializer_list<NamedView> matrices,
                                       std::initializer_list<NamedView> vectors) {
  const VocabularyColumns columns = check_part(op, part);
  require_numels(op, vectors, rows);
  for (const NamedView& view : matrices)
    require_matrix(op, view.name, view.numel, rows, columns.end - columns.begin);
  return columns;
}

inline LossRule check_loss(const CrossEntropyOptions& options, std::int64_t size, int ranks,
                           std::int64_t rows, std::initializer_list<NamedView> of_ranks,
                           std::initializer_list<NamedView> vectors) {
  constexpr const char* op = "cross_entropy_loss";
  const LossRule rule = loss_rule(op, options, size);
  ZP_CHECK(ranks == 1 || ranks == 2 || ranks == 4 || ranks == 8, ErrorCode::invalid_argument,
           std::string(op) + ": ranks is " + std::to_string(ranks),
           "their sums are folded by the tree over 8 blocks", "use 1, 2, 4 or 8");
  require_numels(op, of_ranks, ranks * rows);
  require_numels(op, vectors, rows);
  return rule;
}

}  // namespace zeroproof::cuda::host
